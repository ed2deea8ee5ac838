// Finds the typed call of an operator by its signature.
#include "typed.h"

namespace dy2st {
namespace {

// One or two letters for the type of a parameter; empty where there is no typed form.
std::string letters(const c10::TypePtr& type, bool written) {
  using c10::TypeKind;
  switch (type->kind()) {
    case TypeKind::TensorType:
      return written ? "M" : "T";
    case TypeKind::IntType:
      return "i";
    case TypeKind::SymIntType:
      return "I";
    case TypeKind::FloatType:
      return "f";
    case TypeKind::BoolType:
      return "b";
    case TypeKind::NumberType:
      return "S";
    case TypeKind::ScalarTypeType:
      return "D";
    case TypeKind::LayoutType:
      return "L";
    case TypeKind::DeviceObjType:
      return "V";
    case TypeKind::MemoryFormatType:
      return "F";
    case TypeKind::StringType:
      return "s";
    case TypeKind::OptionalType:
      return letters(type->castRaw<c10::OptionalType>()->getElementType(), false) + "?";
    case TypeKind::ListType:
      return letters(type->castRaw<c10::ListType>()->getElementType(), false) + "[]";
    default:
      return "-";
  }
}

std::string signature_of(const c10::FunctionSchema& schema) {
  std::string text;
  for (const auto& result : schema.returns()) {
    const auto kind = result.real_type()->kind();
    const bool written = result.alias_info() != nullptr && result.alias_info()->isWrite();
    if (!text.empty()) text += " ";
    text += kind == c10::TypeKind::ListType ? "V" : letters(result.real_type(), written);
  }
  text += "(";
  for (const auto& argument : schema.arguments()) {
    const bool written = argument.alias_info() != nullptr && argument.alias_info()->isWrite();
    if (text.back() != '(') text += " ";
    text += letters(argument.real_type(), written);
  }
  return text + ")";
}

}  // namespace

Handler typed_handler(Program& program, Instruction& instruction) {
  const std::string signature = signature_of(instruction.op->schema());
  for (const auto* rows : {&tensor_rows, &other_rows}) {
    for (const Row& row : *rows) {
      if (signature != row.signature) continue;
      if (Handler found = row.choose(program, instruction)) return found;
    }
  }
  return nullptr;
}

}  // namespace dy2st
