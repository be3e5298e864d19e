#include "drivers/processes/address.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>

#include "core/stop.h"
#include "drivers/processes/processes.h"

namespace rondo::processes {
namespace {

Place PlaceOf(const Card::Known& known, uint16_t port) {
  Place place;
  if (known.version == 4) {
    auto* to = reinterpret_cast<sockaddr_in*>(&place.address);
    to->sin_family = AF_INET;
    to->sin_port = htons(port);
    std::memcpy(&to->sin_addr, known.bytes, 4);
    place.size = sizeof(*to);
  } else {
    auto* to = reinterpret_cast<sockaddr_in6*>(&place.address);
    to->sin6_family = AF_INET6;
    to->sin6_port = htons(port);
    std::memcpy(&to->sin6_addr, known.bytes, 16);
    place.size = sizeof(*to);
  }
  return place;
}

// Whether the address means all addresses of the machine, like "0.0.0.0" and "::".
bool IsEvery(const sockaddr* address) {
  if (address->sa_family == AF_INET) {
    return reinterpret_cast<const sockaddr_in*>(address)->sin_addr.s_addr == htonl(INADDR_ANY);
  }
  return IN6_IS_ADDR_UNSPECIFIED(&reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr);
}

// Adds an address. Addresses that are valid only within one link also need an interface, and are left out.
bool Know(const sockaddr* address, Card::Known* known) {
  if (address == nullptr) return false;
  if (address->sa_family == AF_INET) {
    known->version = 4;
    std::memcpy(known->bytes, &reinterpret_cast<const sockaddr_in*>(address)->sin_addr, 4);
    return true;
  }
  if (address->sa_family != AF_INET6) return false;
  const in6_addr& six = reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr;
  known->version = 6;
  std::memcpy(known->bytes, &six, 16);
  return !IN6_IS_ADDR_LINKLOCAL(&six);
}

}  // namespace

uint64_t NetworkNumber() {
  struct stat of = {};
  const uint64_t machine = MachineNumber();
  return machine == 0 || stat("/proc/self/ns/net", &of) != 0 ? 0 : machine ^ of.st_ino << 1;
}

Status MakeCard(const Listeners& listeners, Card* card) {
  *card = Card();
  RONDO_RETURN_IF_ERROR(Draw(&card->share));
  card->machine = NetworkNumber();
  card->everywhere = listeners.everywhere ? 1 : 0;
  card->port = PortOf(PlaceOf(listeners.files[0]));
  if (!listeners.everywhere) {
    for (uint32_t i = 0; i < listeners.count; ++i) {
      const Place place = PlaceOf(listeners.files[i]);
      if (Know(reinterpret_cast<const sockaddr*>(&place.address), &card->known[card->count])) ++card->count;
    }
    return Status::Ok();
  }
  ifaddrs* all = nullptr;
  if (getifaddrs(&all) != 0) return Status::Ok();
  for (const ifaddrs* one = all; one != nullptr && card->count < Card::kMost; one = one->ifa_next) {
    if ((one->ifa_flags & IFF_UP) == 0 || (one->ifa_flags & IFF_LOOPBACK) != 0) continue;
    if (Know(one->ifa_addr, &card->known[card->count])) ++card->count;
  }
  freeifaddrs(all);
  return Status::Ok();
}

Status ListenBeside(const Place& place, Listeners* listeners) {
  Place beside = place;
  auto* address = reinterpret_cast<sockaddr*>(&beside.address);
  Card::Known known;
  *listeners = Listeners();
  listeners->everywhere = !Know(address, &known) || IsEvery(address);
  if (address->sa_family == AF_INET6) {
    reinterpret_cast<sockaddr_in6*>(address)->sin6_port = 0;
  } else {
    reinterpret_cast<sockaddr_in*>(address)->sin_port = 0;
  }
  RONDO_ASSIGN_OR_RETURN(listeners->files[0], listeners->everywhere ? ListenEverywhere() : ListenAt(beside));
  listeners->count = 1;
  return Status::Ok();
}

Status ListenThere(const char* address, const Named& named, Listeners* listeners) {
  if (named.count == 0) {
    return Status::Error(Code::kInvalidArgument,
                         "process 0 is to listen at %s, a name that is not known here", address);
  }
  Status status;
  for (uint32_t i = 0; i < named.count; ++i) {
    const auto* at = reinterpret_cast<const sockaddr*>(&named.places[i].address);
    Card::Known known;
    if (!Know(at, &known)) {
      status = Status::Error(
          Code::kInvalidArgument,
          "process 0 is to listen at %s, which holds on one link alone: give another address", address);
      continue;
    }
    Result<File> file = ListenAt(named.places[i]);
    if (!file.ok() && file.status().code() != Code::kNotFound) return file.status();
    if (!file.ok()) {
      if (status.ok()) status = file.status();
      continue;
    }
    listeners->everywhere = listeners->everywhere || IsEvery(at);
    listeners->files[listeners->count++] = std::move(*file);
  }
  if (listeners->count != 0) return Status::Ok();
  return status.At("process 0 listens at the address that all are given, %s, and not elsewhere", address);
}

uint32_t PlacesOf(const Card& card, const Card& mine, Place (&places)[Card::kMost + 1]) {
  uint32_t count = 0;
  if (card.everywhere != 0 && card.machine == mine.machine && card.machine != 0) {
    places[count++] = PlaceOf({4, {127, 0, 0, 1}}, card.port);
  }
  for (uint32_t i = 0; i < card.count && i < Card::kMost; ++i) {
    places[count++] = PlaceOf(card.known[i], card.port);
  }
  return count;
}

Result<Place> PlaceOfNumber(const char* number) {
  Place place;
  auto* four = reinterpret_cast<sockaddr_in*>(&place.address);
  auto* six = reinterpret_cast<sockaddr_in6*>(&place.address);
  if (inet_pton(AF_INET, number, &four->sin_addr) == 1) {
    place.address.ss_family = AF_INET;
    place.size = sizeof(*four);
  } else if (inet_pton(AF_INET6, number, &six->sin6_addr) == 1) {
    place.address.ss_family = AF_INET6;
    place.size = sizeof(*six);
  } else {
    return Status::Error(Code::kInvalidArgument, "\"%s\" is no address in numbers to listen at", number);
  }
  return place;
}

bool LocalNumber(const File& file, char* number, size_t size) {
  const Place place = PlaceOf(file);
  if (place.address.ss_family == AF_INET) {
    const in_addr& four = reinterpret_cast<const sockaddr_in*>(&place.address)->sin_addr;
    return ntohl(four.s_addr) >> 24 != 127 && inet_ntop(AF_INET, &four, number, size) != nullptr;
  }
  const in6_addr& six = reinterpret_cast<const sockaddr_in6*>(&place.address)->sin6_addr;
  return place.address.ss_family == AF_INET6 && !IN6_IS_ADDR_LOOPBACK(&six) && !IN6_IS_ADDR_LINKLOCAL(&six) &&
         inet_ntop(AF_INET6, &six, number, size) != nullptr;
}

Result<Named> Resolve(const char* address) {
  char host[256] = {};
  const char* colon = std::strrchr(address, ':');
  const size_t length = colon == nullptr ? 0 : static_cast<size_t>(colon - address);
  char* end = nullptr;
  const unsigned long port = colon == nullptr ? 0 : std::strtoul(colon + 1, &end, 10);
  if (length == 0 || length >= sizeof(host) || end == colon + 1 || *end != 0 || port == 0 || port > 65535) {
    return Status::Error(Code::kInvalidArgument, "address \"%s\" is not of the form HOST:PORT", address);
  }
  const bool bracketed = address[0] == '[' && address[length - 1] == ']';
  std::memcpy(host, address + (bracketed ? 1 : 0), length - (bracketed ? 2 : 0));
  Named named;
  named.port = static_cast<uint16_t>(port);
  addrinfo hints = {}, *found = nullptr;
  hints.ai_socktype = SOCK_STREAM;
  if (getaddrinfo(host, colon + 1, &hints, &found) != 0) return named;
  for (const addrinfo* one = found; one != nullptr && named.count < Listeners::kMost; one = one->ai_next) {
    Place& place = named.places[named.count++];
    std::memcpy(&place.address, one->ai_addr, one->ai_addrlen);
    place.size = one->ai_addrlen;
  }
  freeaddrinfo(found);
  return named;
}

}  // namespace rondo::processes

namespace rondo {

uint64_t MachineNumber() {
  char text[40] = {};
  processes::File file(open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC));
  if (!file.valid() || read(file.get(), text, sizeof(text) - 1) <= 0) return 0;
  uint64_t number = 0xcbf29ce484222325ull;
  for (char c : text) number = (number ^ static_cast<uint8_t>(c)) * 0x100000001b3ull;  // FNV-1a
  return number | 1;
}

}  // namespace rondo
