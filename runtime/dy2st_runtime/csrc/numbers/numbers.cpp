#include "numbers.h"

namespace dy2st {

Handler number_handler(const std::string& name) {
  for (const Handlers* table : {&arithmetic_handlers(), &comparison_handlers(), &conversion_handlers()}) {
    if (const auto found = table->find(name); found != table->end()) return found->second;
  }
  return nullptr;
}

}  // namespace dy2st
