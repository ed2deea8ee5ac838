// Lowers programs as dy2st-run does, and prints the instructions: for each line of a file, a program of an archive as JSON.
#include <fstream>
#include <iostream>

#include "../../runtime/dy2st_runtime/csrc/listing.h"
#include "../../runtime/dy2st_runtime/csrc/standalone/files/json.h"
#include "../../runtime/dy2st_runtime/csrc/standalone/lowering/lower.h"
#include "../../runtime/dy2st_runtime/csrc/standalone/text.h"

int main(int count, char** words) {
  if (count != 2) return 2;
  std::ifstream file(words[1]);
  const auto of_object = [](const dy2st::Value& value) { return "text " + dy2st::text_of(value); };
  for (std::string line; std::getline(file, line);) {
    std::string shown;
    try {
      const dy2st::Json json = dy2st::Json::parse(line, "a program");
      const dy2st::Lowered lowered = dy2st::lower(json);
      shown = dy2st::listing(*lowered.program, of_object);
      for (const std::string& place : lowered.places) shown += "\nat" + place;
    } catch (const std::exception& error) {
      shown = std::string("refused: ") + error.what();
    }
    std::cout << shown << '\0';
  }
  return 0;
}
