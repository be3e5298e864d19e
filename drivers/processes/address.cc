#include "drivers/processes/address.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>

#include "core/stop.h"
#include "drivers/processes/processes.h"

namespace rondo::processes {
namespace {

// One a network namespace of a machine.
uint64_t NetworkNumber() {
  struct stat of = {};
  const uint64_t machine = MachineNumber();
  return machine == 0 || stat("/proc/self/ns/net", &of) != 0 ? 0 : machine ^ of.st_ino << 1;
}

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

// Addresses that hold only within one link name an interface, too, and are left out.
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

Card MakeCard(uint16_t port) {
  Card card;
  if (getrandom(&card.nonce, sizeof(card.nonce), 0) != sizeof(card.nonce)) {
    card.nonce = MonotonicNanoseconds() * 0x9e3779b97f4a7c15ull + static_cast<uint64_t>(getpid());
  }
  card.machine = NetworkNumber();
  card.port = port;
  ifaddrs* all = nullptr;
  if (getifaddrs(&all) != 0) return card;
  for (const ifaddrs* one = all; one != nullptr && card.count < Card::kMost; one = one->ifa_next) {
    if ((one->ifa_flags & IFF_UP) == 0 || (one->ifa_flags & IFF_LOOPBACK) != 0) continue;
    if (Know(one->ifa_addr, &card.known[card.count])) ++card.count;
  }
  freeifaddrs(all);
  return card;
}

uint32_t PlacesOf(const Card& card, const Card& mine, Place (&places)[Card::kMost + 1]) {
  uint32_t count = 0;
  if (card.machine == mine.machine && card.machine != 0) {
    places[count++] = PlaceOf({4, {127, 0, 0, 1}}, card.port);
  }
  for (uint32_t i = 0; i < card.count && i < Card::kMost; ++i) {
    places[count++] = PlaceOf(card.known[i], card.port);
  }
  return count;
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
  for (const addrinfo* one = found; one != nullptr && named.count < 8; one = one->ai_next) {
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
