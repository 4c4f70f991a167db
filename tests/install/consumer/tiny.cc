// A program that needs little of lockstep, and builds quickly.
#include <lockstep/base/version.h>

#include <iostream>

int main() {
  std::cout << "hello from lockstep " << lockstep::version() << "\n";
}
