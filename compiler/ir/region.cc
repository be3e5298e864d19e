#include "compiler/ir/region.h"

#include <algorithm>
#include <cctype>

namespace rondo::ir {

bool IsRegionName(std::string_view text) {
  const auto is_sign = [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '_' || c == '.' || c == '-' || c == '/';
  };
  return !text.empty() && text.front() != '/' && text.back() != '/' && text.find("//") == text.npos &&
         std::all_of(text.begin(), text.end(), is_sign);
}

std::vector<std::string> PlacesIn(std::string_view region) {
  std::vector<std::string> places;
  for (size_t at = 0; at < region.size();) {
    const size_t end = std::min(region.find('/', at), region.size());
    places.emplace_back(region.substr(at, end - at));
    at = end + 1;
  }
  return places;
}

std::string RegionOfPlaces(const std::vector<std::string>& places) {
  std::string region;
  for (const std::string& place : places) region += (region.empty() ? "" : "/") + place;
  return region;
}

std::string NameOfRegion(std::string_view region) {
  std::string name;
  for (const std::string& place : PlacesIn(region)) {
    const std::string own = place.substr(0, place.find('#'));
    if (!own.empty()) name += (name.empty() ? "" : "/") + own;
  }
  return name;
}

bool ShareAPlace(std::string_view region, std::string_view other) {
  return !region.empty() && region.substr(0, region.find('/')) == other.substr(0, other.find('/'));
}

bool IsKeptTogether(std::string_view region) {
  const size_t last = region.rfind('/');
  return region.substr(last == region.npos ? 0 : last + 1).substr(0, 1) == "#";
}

}  // namespace rondo::ir
