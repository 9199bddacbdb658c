package limiter

import (
	"crypto/sha256"
	"encoding/hex"
	"hash/maphash"
	"net/netip"
	"strings"

	"breakwater/gateway/exchange"
)

// By is what a bucket is for.
type By string

// The kinds of keys.
const (
	ByRoute   By = "route"   // all requests of a route
	ByCaller  By = "caller"  // the caller of the event
	ByTenant  By = "tenant"  // the tenant of the event
	ByAddress By = "address" // the client's address; of IPv6 its /64
	ByHeader  By = "header"  // the first value of a header
	ByAll     By = "all"     // of a quota: whatever counts against it
)

// Key names what requests are told apart by. The zero Key is the route.
type Key struct {
	By     By     `json:"by"`
	Header string `json:"header,omitempty"`
}

// kind is a By that is quick to tell from others.
type kind uint8

const (
	ofRoute kind = iota
	ofAll
	ofCaller
	ofTenant
	ofAddress
	ofHeader
)

func (k kind) name() By {
	return [...]By{ByRoute, ByAll, ByCaller, ByTenant, ByAddress, ByHeader}[k]
}

// single reports whether all requests share one bucket.
func (k kind) single() bool { return k <= ofAll }

func (k Key) kind() kind {
	for of := ofAll; of <= ofHeader; of++ {
		if of.name() == k.By {
			return of
		}
	}
	return ofRoute
}

// reader reads the keys of requests.
type reader struct {
	kind   kind
	header string
	deny   bool // a request without
	route  string
	// trusted reports whether a peer's word about addresses is believed.
	trusted func(netip.Addr) bool
}

func (k Key) reader(missing Missing, d Deps) reader {
	return reader{kind: k.kind(), header: k.Header, deny: missing == Deny, route: d.Route, trusted: d.Trusted}
}

// KeyValue is the key of one request. Its text may lie over the request's head:
// it is valid as long as that.
type KeyValue struct {
	kind kind
	text string
	addr netip.Addr
}

// unusable is what the gateway calls a caller or tenant whose name is no name;
// all of them are strangers to one another.
const unusable = "invalid"

// of reads the key of x; ok is false where it has none and must have one.
func (r *reader) of(x *exchange.Exchange) (v KeyValue, ok bool) {
	switch r.kind {
	case ofRoute:
		return KeyValue{text: r.route}, true
	case ofAll:
		return KeyValue{kind: ofAll}, true
	case ofCaller:
		v.text = x.Event.Caller
	case ofTenant:
		v.text = x.Event.Tenant
	case ofHeader:
		v.text = strings.TrimSpace(x.Request.Head.Get(r.header))
	case ofAddress:
		v.addr = client(x, r.trusted)
		v.kind = ofAddress
		return v, v.addr.IsValid()
	}
	if v.text != "" && (v.text != unusable || r.kind == ofHeader) {
		v.kind = r.kind
		return v, true
	}
	if r.deny {
		return v, false
	}
	v = KeyValue{kind: ofAddress, addr: client(x, r.trusted)}
	return v, v.addr.IsValid()
}

// client is the address of the client: the last one in X-Forwarded-For that is no
// peer we trust, the peer itself being the last of that list.
func client(x *exchange.Exchange, trusted func(netip.Addr) bool) netip.Addr {
	at := address(x.Request.Peer)
	if trusted == nil || !at.IsValid() || !trusted(at) {
		return masked(at)
	}
	list := x.Request.Head.Get("X-Forwarded-For")
	for list != "" {
		var last string
		if i := strings.LastIndexByte(list, ','); i >= 0 {
			list, last = list[:i], list[i+1:]
		} else {
			list, last = "", list
		}
		next := address(strings.TrimSpace(last))
		if !next.IsValid() {
			break // what stands before it nobody vouches for
		}
		if at = next; !trusted(at) {
			break
		}
	}
	return masked(at)
}

// address reads an address, with or without a port.
func address(s string) netip.Addr {
	addr, err := netip.ParseAddr(s)
	if err != nil {
		with, err := netip.ParseAddrPort(s)
		if err != nil {
			return netip.Addr{}
		}
		addr = with.Addr()
	}
	return addr.Unmap().WithZone("")
}

// masked gives all addresses that one client can choose from the same key: whoever
// has one address of an IPv6 /64 has all of them (RFC 6177).
func masked(addr netip.Addr) netip.Addr {
	if addr.Is6() {
		wide, _ := addr.Prefix(64) // fails for an address with a zone
		addr = wide.Addr()
	}
	return addr
}

func (v KeyValue) hash(seed maphash.Seed) uint64 {
	if v.kind == ofAddress {
		b := v.addr.As16()
		return maphash.Bytes(seed, b[:])
	}
	// An address given as a name is not that address: turned about, the two differ
	// in every bit.
	return ^maphash.String(seed, v.text)
}

// String is the key as a store of several processes knows it: kind and text, the
// text as its hash where it is long or not plain. It shares no memory with the request.
func (v KeyValue) String() string {
	text := v.text
	if v.kind == ofAddress {
		text = v.addr.String()
	}
	for i := range len(text) {
		if b := text[i]; b <= ' ' || b >= 0x7f || i >= 64 {
			sum := sha256.Sum256([]byte(text))
			return string(v.kind.name()) + "#" + hex.EncodeToString(sum[:16])
		}
	}
	return string(v.kind.name()) + ":" + text
}
