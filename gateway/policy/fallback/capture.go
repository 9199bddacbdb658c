package fallback

import (
	"io"

	"breakwater/gateway/exchange"
)

// capture copies a body while it goes by to the client.
type capture struct {
	store    *Store
	entry    *entry
	body     io.ReadCloser // nil: there is none
	length   int64         // as announced; -1: unknown
	max      int64
	reserved int64
	read     []byte
	ended    bool
	lost     bool // longer than may be kept
}

// Read implements io.Reader.
func (c *capture) Read(p []byte) (int, error) {
	n, err := c.body.Read(p)
	if n > 0 && !c.lost {
		if int64(len(c.read)+n) > c.max {
			c.lost, c.read = true, nil
		} else {
			c.read = append(c.read, p[:n]...)
		}
	}
	c.ended = c.ended || err == io.EOF
	return n, err
}

// Close implements io.Closer.
func (c *capture) Close() error { return c.body.Close() }

// whole reports whether all of the body has gone by, and is kept.
func (c *capture) whole() bool {
	switch {
	case c.body == nil:
		return true
	case c.lost:
		return false
	case c.length >= 0:
		return int64(len(c.read)) == c.length
	}
	return c.ended
}

// done is the entry with its body.
func (c *capture) done() *entry {
	e := c.entry
	e.length = c.length
	if c.body != nil {
		e.body, e.length = c.read[:len(c.read):len(c.read)], int64(len(c.read))
		if e.body == nil {
			e.body = []byte{}
		}
	}
	e.size = entryCost + int64(len(e.key)) + int64(cap(e.body))
	for _, list := range [][]exchange.Field{e.head, e.vary} {
		for _, f := range list {
			e.size += fieldCost + int64(len(f.Name)+len(f.Value))
		}
	}
	return e
}

// What the memory of an entry and of a field costs beside their texts: the
// structs, the map's cell and the allocator's rounding.
const (
	entryCost = 512
	fieldCost = 48
)
