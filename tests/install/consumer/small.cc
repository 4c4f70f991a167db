// A program below the torch line.
#include <lockstep/comm.h>

#include <iostream>

int main() {
  lockstep::TcpStoreServer server("127.0.0.1", 0, "secret");
  lockstep::TcpStore store("127.0.0.1", server.port(), "secret");
  store.set("greeting", "hello from lockstep ");
  std::vector<float> x = {1, 2};
  lockstep::init()->all_reduce(lockstep::buffer_of(x))->wait();
  std::cout << lockstep::to_string(store.get("greeting")) << lockstep::version()
            << "\n";
}
