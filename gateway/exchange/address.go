package exchange

import "net/netip"

// Forbidden says why no upstream may have the address, or "". What answers only to
// the machine it runs on is refused: a gateway that can be pointed at the metadata
// service of its cloud hands out its own keys.
func Forbidden(ip netip.Addr) string {
	zone := ip.Zone()
	ip = ip.WithZone("").Unmap()
	switch {
	case ip.IsLinkLocalUnicast(), ip == netip.MustParseAddr("fd00:ec2::254"), ip == netip.MustParseAddr("100.100.100.200"):
		return "a link-local or metadata address"
	case ip.IsUnspecified():
		return "the unspecified address"
	case ip.IsMulticast(), ip == netip.MustParseAddr("255.255.255.255"):
		return "a multicast or broadcast address"
	case zone != "":
		return "an address with a zone"
	}
	return ""
}
