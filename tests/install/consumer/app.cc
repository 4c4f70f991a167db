#include <lockstep/lockstep.h>

#include <iostream>

int main() {
  lockstep::TcpStoreServer server("127.0.0.1", 0, "secret");
  lockstep::TcpStore store("127.0.0.1", server.port(), "secret");
  store.set("greeting", "hello from lockstep ");
  std::cout << lockstep::to_string(store.get("greeting")) << lockstep::version()
            << "\n";
}
