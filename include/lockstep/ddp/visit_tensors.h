// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <map>
#include <string>
#include <tuple>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include <ATen/core/Tensor.h>

namespace lockstep {

// How to find the tensors in the value that a module returns.
//
// Tensors are found in tuples, pairs, vectors, arrays, maps, optionals and
// variants of any depth; numbers and strings are passed over. A struct has a
// member function for it:
//
//   struct Output {
//     at::Tensor policy, value;
//     template <class F>
//     void visit_tensors(F&& f) { f(policy), f(value); }
//   };
//
// or, when the struct cannot be changed, a specialisation:
//
//   template <>
//   struct lockstep::VisitTensors<Theirs> {
//     template <class F>
//     static void visit(Theirs& x, F&& f) { lockstep::visit_tensors(x.y, f); }
//   };
template <class T, class = void>
struct VisitTensors;

// Calls f(at::Tensor&) for each tensor in `value`, in order.
template <class T, class F>
void visit_tensors(T& value, F&& f) {
  VisitTensors<T>::visit(value, f);
}

// ---- The types that are known.

template <>
struct VisitTensors<at::Tensor> {
  template <class F>
  static void visit(at::Tensor& tensor, F&& f) {
    f(tensor);
  }
};

namespace detail {

struct NoTensors {
  template <class T, class F>
  static void visit(T& /*value*/, F&& /*f*/) {}
};

struct EachElement {
  template <class T, class F>
  static void visit(T& values, F&& f) {
    for (auto&& one : values) visit_tensors(one, f);
  }
};

struct EachMapped {
  template <class T, class F>
  static void visit(T& values, F&& f) {
    for (auto& one : values) visit_tensors(one.second, f);
  }
};

struct EachPart {
  template <class T, class F>
  static void visit(T& parts, F&& f) {
    std::apply([&](auto&... part) { (visit_tensors(part, f), ...); }, parts);
  }
};

template <class T>
struct WithMember {
  template <class F>
  static void visit(T& value, F&& f) {
    value.visit_tensors([&](auto& part) { lockstep::visit_tensors(part, f); });
  }
};

// Takes any argument, to ask whether a member can be called with a visitor.
struct AnyVisitor {
  template <class T>
  void operator()(T& /*part*/) const {}
};

template <class T>
constexpr bool is_text = std::is_same_v<std::decay_t<T>, const char*>;

template <class T, class = void>
struct HasMember : std::false_type {};
template <class T>
struct HasMember<T, std::void_t<decltype(std::declval<T&>().visit_tensors(
                        std::declval<AnyVisitor>()))>> : std::true_type {};

}  // namespace detail

// Numbers, enumerators, text and structs with visit_tensors(f); another type
// does not compile.
template <class T, class>
struct VisitTensors
    : std::conditional_t<detail::HasMember<T>::value, detail::WithMember<T>,
                         detail::NoTensors> {
  static_assert(detail::HasMember<T>::value || std::is_arithmetic_v<T> ||
                    std::is_enum_v<T> || detail::is_text<T>,
                "lockstep does not know where the tensors are in what this "
                "module returns: give the struct a visit_tensors(f), or "
                "specialise lockstep::VisitTensors for it");
};

template <>
struct VisitTensors<std::string> : detail::NoTensors {};
template <>
struct VisitTensors<std::monostate> : detail::NoTensors {};
template <class A>
struct VisitTensors<std::vector<bool, A>> : detail::NoTensors {};
template <class T, class A>
struct VisitTensors<std::vector<T, A>> : detail::EachElement {};
template <class T, size_t N>
struct VisitTensors<std::array<T, N>> : detail::EachElement {};
template <class... Ts>
struct VisitTensors<std::tuple<Ts...>> : detail::EachPart {};
template <class A, class B>
struct VisitTensors<std::pair<A, B>> : detail::EachPart {};
template <class K, class T, class... More>
struct VisitTensors<std::map<K, T, More...>> : detail::EachMapped {};
template <class K, class T, class... More>
struct VisitTensors<std::unordered_map<K, T, More...>> : detail::EachMapped {};
// std::optional, and others such as c10::optional, which is another type in
// some versions of libtorch.
template <class T>
struct VisitTensors<T, std::void_t<decltype(std::declval<T&>().has_value()),
                                   decltype(*std::declval<T&>())>> {
  template <class F>
  static void visit(T& value, F&& f) {
    if (value.has_value()) visit_tensors(*value, f);
  }
};
template <class... Ts>
struct VisitTensors<std::variant<Ts...>> {
  template <class F>
  static void visit(std::variant<Ts...>& value, F&& f) {
    std::visit([&](auto& one) { visit_tensors(one, f); }, value);
  }
};

}  // namespace lockstep
