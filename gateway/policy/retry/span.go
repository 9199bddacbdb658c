package retry

import (
	"sync/atomic"
	"time"

	"breakwater/gateway/internal/window"
)

// span is a ring of counts whose buckets lie on the wall clock's multiples of
// their width. Were they counted from the first call, a bound on any ten whole
// buckets would be none on the ten seconds that a dashboard shows.
type span struct {
	whole, bucket time.Duration
	ring          atomic.Pointer[window.Ring] // nil before the first call
}

func newSpan(whole time.Duration, buckets int) *span {
	if whole < time.Duration(buckets) {
		whole = time.Duration(buckets) * time.Second
	}
	return &span{whole: whole, bucket: whole / time.Duration(buckets)}
}

func (s *span) at(now time.Time) *window.Ring {
	if r := s.ring.Load(); r != nil {
		return r
	}
	// Add keeps the monotonic reading.
	base := now.Add(-time.Duration(now.UnixNano() % int64(s.whole)))
	s.ring.CompareAndSwap(nil, window.New(window.Config{Span: s.whole, Bucket: s.bucket, Shards: 8}, base))
	return s.ring.Load()
}

// add counts at now. What a request does to a counter that all share costs more
// than the rest, so the last digits of its instant choose one of several.
func (s *span) add(now time.Time, c window.Counts) {
	s.at(now).Add(now, uint(now.Nanosecond())>>6, c)
}

// sum is all that counts at now, what was overtaken by the edge of a bucket too.
func (s *span) sum(now time.Time) window.Counts {
	r := s.at(now)
	if r.Behind(now) {
		r.Advance(now)
	}
	head := r.Head()
	return r.Between(head-r.Buckets()+1, head)
}
