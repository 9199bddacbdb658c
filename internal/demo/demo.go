// Package demo is a small shop behind the gateway: four services that really
// answer over HTTP, three callers that keep them busy, the documents that
// describe them, thirty days of history, and one outage.
//
// Everything that looks like chance is a hash of a seed and a name, or a random
// source made from the seed: two runs with one seed fail at the same requests.
package demo

import "hash/fnv"

// The services of the shop.
const (
	Order     = "order"
	Points    = "points"
	Inventory = "inventory"
	Coupon    = "coupon"
)

// Services lists them.
func Services() []string { return []string{Order, Points, Inventory, Coupon} }

// Operation is one route of the shop.
type Operation struct {
	Route   string // its name in the gateway's documents
	Service string
	Method  string
	Pattern string // as chi writes it
	// Weight is the route's share of what the callers send, in parts per hundred.
	Weight int
}

// Operations lists the routes.
func Operations() []Operation {
	return []Operation{
		{"order-create", Order, "POST", "/order/orders", 20},
		{"order-get", Order, "GET", "/order/orders/{id}", 22},
		{"points-deduct", Points, "POST", "/points/deduct", 6},
		{"points-balance", Points, "GET", "/points/balance/{user}", 16},
		{"inventory-reserve", Inventory, "POST", "/inventory/reserve", 4},
		{"inventory-get", Inventory, "GET", "/inventory/items/{sku}", 18},
		{"coupon-redeem", Coupon, "POST", "/coupon/redeem", 4},
		{"coupon-get", Coupon, "GET", "/coupon/coupons/{code}", 10},
	}
}

// draw maps a seed and names to [0, 1), the same on every machine.
func draw(seed uint64, names ...string) float64 {
	h := fnv.New64a()
	var b [8]byte
	for i := range b {
		b[i] = byte(seed >> (8 * i))
	}
	_, _ = h.Write(b[:]) // a hash never fails
	for _, n := range names {
		_, _ = h.Write([]byte(n))
		_, _ = h.Write([]byte{0})
	}
	x := h.Sum64()
	// FNV leaves the high bits of like names alike; this spreads them.
	x ^= x >> 33
	x *= 0xff51afd7ed558ccd
	x ^= x >> 33
	x *= 0xc4ceb9fe1a85ec53
	x ^= x >> 33
	return float64(x>>11) / (1 << 53)
}
