// Options of a command: what a command's file includes to add them, and the usual two kinds.
#pragma once

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>

#include <cmath>
#include <string>

namespace allocmark {

// An option with a value that the help calls `unit`.
template <typename Value>
CLI::Option* add_value(CLI::App* app, const std::string& name, Value& value,
                       const std::string& unit, const std::string& text) {
  return app->add_option(name, value, text)->type_name(unit);
}

// The same, and the help says what it is where it is left out.
template <typename Value>
CLI::Option* add_default(CLI::App* app, const std::string& name, Value& value,
                         const std::string& unit, const std::string& text) {
  return add_value(app, name, value, unit, text)->capture_default_str();
}

// As CLI::Range, which lets "nan" pass: no comparison with it is true.
inline CLI::Validator number_range(double low, double high) {
  return CLI::Validator(
      [range = CLI::Range(low, high)](std::string& text) {
        double value = 0;
        if (!CLI::detail::lexical_cast(text, value) || !std::isnan(value)) return range(text);
        std::string beyond = "inf";
        const std::string message = range(beyond);
        return message.substr(0, message.find(beyond)) + text +
               message.substr(message.find(beyond) + beyond.size());
      },
      "");
}

}  // namespace allocmark
