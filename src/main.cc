#include <iostream>

#include "cli/app.h"

int main(int argc, char** argv) {
  return kvasir::cli::Main({argv + 1, argv + argc}, {std::cin, std::cout, std::cerr});
}
