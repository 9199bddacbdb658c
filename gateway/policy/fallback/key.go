package fallback

import (
	"encoding/binary"
	"hash/maphash"
	"strings"

	"breakwater/gateway/exchange"
)

// keySize is what most keys fit in, so that looking one up needs no memory.
const keySize = 512

// appendKey appends what two requests must have alike to get the same answer,
// beside the fields that the answer names in Vary. Every part comes with its
// length, so that no two different lists of parts make the same key.
func (s *Store) appendKey(to []byte, x *exchange.Exchange, shared bool) []byte {
	q := &x.Request
	for _, part := range [...]string{q.Method, q.Scheme, q.Host, q.Path, q.Query} {
		to = appendPart(to, part)
	}
	if shared {
		return append(to, 0)
	}
	to = append(to, 1)
	to = appendPart(to, x.Event.Caller)
	to = appendPart(to, x.Event.Tenant)
	to = s.appendSecret(to, &q.Head, "Authorization")
	return s.appendSecret(to, &q.Head, "Cookie")
}

func appendPart(to []byte, part string) []byte {
	to = binary.AppendUvarint(to, uint64(len(part)))
	return append(to, part...)
}

// appendSecret appends a print of each line of a field: what clients prove
// themselves with is not kept. It has 128 bits under seeds that nobody knows, so that
// no client can find a value with the print of another's.
func (s *Store) appendSecret(to []byte, head *exchange.Head, name string) []byte {
	for _, f := range head.Fields() {
		if len(f.Name) == len(name) && strings.EqualFold(f.Name, name) {
			to = append(to, 1)
			for _, seed := range s.seeds {
				to = binary.LittleEndian.AppendUint64(to, maphash.String(seed, f.Value))
			}
		}
	}
	return append(to, 0)
}

// resource is a hash of what is asked for, whoever asks and however.
func resource(q *exchange.Request) uint64 {
	h := uint64(14695981039346656037)
	for _, part := range [...]string{q.Host, "\n", q.Path, "?", q.Query} {
		for i := range len(part) {
			h = (h ^ uint64(part[i])) * 1099511628211
		}
	}
	return h ^ h>>32
}

// varyOf lists the fields of a request that an answer says it depends on.
func varyOf(names []string, req *exchange.Head) []exchange.Field {
	out := make([]exchange.Field, 0, len(names))
	for _, name := range names {
		out = append(out, exchange.Field{Name: name, Value: joined(req, name)})
	}
	return out
}

// joined is the value of a field with all its lines, and none where there is no
// such field: RFC 9111 section 4.1 wants that to be different from an empty one.
func joined(req *exchange.Head, name string) string {
	var b strings.Builder
	for _, f := range req.Fields() {
		if len(f.Name) == len(name) && strings.EqualFold(f.Name, name) {
			b.WriteString(",")
			b.WriteString(strings.Trim(f.Value, " \t"))
		}
	}
	return b.String()
}

// sameVary is vary == varyOf(names of vary, req), without the memory.
func sameVary(vary []exchange.Field, req *exchange.Head) bool {
	for _, want := range vary {
		left := want.Value
		for _, f := range req.Fields() {
			if len(f.Name) != len(want.Name) || !strings.EqualFold(f.Name, want.Name) {
				continue
			}
			value := strings.Trim(f.Value, " \t")
			if len(left) <= len(value) || left[0] != ',' || left[1:1+len(value)] != value {
				return false
			}
			left = left[1+len(value):]
		}
		if left != "" {
			return false
		}
	}
	return true
}
