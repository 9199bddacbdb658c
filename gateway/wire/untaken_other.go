//go:build !linux

package wire

import "breakwater/gateway/exchange"

// untaken cannot be told here.
func (c *conn) untaken(*exchange.Exchange, uint64) bool { return false }
