package breaker

import "sync/atomic"

// flights counts the calls under way by when they began, so that those that have
// no answer for too long are known without a timer or a list: a call that hangs
// has no result that could count.
//
// Beginnings are rounded up to slots of a sixty-fourth of the limit, so none is
// called slow too soon, and none more than that too late.
type flights struct {
	after int64 // nanoseconds
	width int64
	n     int64
	// rows are by shard and slot: the slot's own number, whether it has been
	// counted, and how many are still under way.
	rows [][]atomic.Uint64
	from int64 // the next slot to be counted; under the breaker's lock
}

const (
	counted  = 1 << 31
	underway = counted - 1
)

// flights returns an empty record, or nil where slow calls do not count.
func (b *Breaker) flights(cfg *Config, t int64) *flights {
	if cfg.SlowPPM == 0 {
		return nil
	}
	f := &flights{after: int64(cfg.SlowAfter)}
	f.width = max(f.after/64, 1)
	f.n = 2*(f.after/f.width) + 2
	f.from = f.slot(t)
	f.rows = make([][]atomic.Uint64, b.deps.Shards)
	for i := range f.rows {
		f.rows[i] = make([]atomic.Uint64, f.n+8) // shards share no cache line
	}
	return f
}

func (f *flights) slot(t int64) int64 { return (t + f.width - 1) / f.width }

func (f *flights) word(slot int64, shard uint) *atomic.Uint64 {
	return &f.rows[shard%uint(len(f.rows))][slot%f.n]
}

// start begins to watch p.
func (f *flights) start(p *Permit, shard uint) {
	p.slow, p.slot = f, f.slot(p.at)
	at := f.word(p.slot, shard)
	for {
		w := at.Load()
		next := w + 1
		if uint32(w>>32) != uint32(p.slot) {
			next = uint64(uint32(p.slot))<<32 | 1
		} else if w&counted != 0 {
			p.slot = -1 // its clock was behind: judged by its time alone, when it is over
			return
		}
		if at.CompareAndSwap(w, next) {
			return
		}
	}
}

// finish ends the watch, and reports whether p has not been counted as slow.
func (f *flights) finish(p *Permit, shard uint) (fresh bool) {
	if p.slot < 0 {
		return true
	}
	at := f.word(p.slot, shard)
	for {
		w := at.Load()
		if uint32(w>>32) != uint32(p.slot) || w&counted != 0 {
			return false
		}
		if at.CompareAndSwap(w, w-1) {
			return true
		}
	}
}

// due is when the calls of the next slot become slow.
func (f *flights) due() int64 {
	if f == nil {
		return never
	}
	return f.moment(f.from)
}

func (f *flights) moment(slot int64) int64 { return slot*f.width + f.after }

// harvest takes the next slot: how many of its calls have no answer yet.
func (f *flights) harvest() (n int64) {
	for i := range f.rows {
		at := &f.rows[i][f.from%f.n]
		for {
			before := at.Load()
			w := before
			if uint32(w>>32) != uint32(f.from) {
				w = uint64(uint32(f.from)) << 32
			}
			if at.CompareAndSwap(before, w|counted) {
				n += int64(w & underway)
				break
			}
		}
	}
	f.from++
	return n
}

// skip leaves out slots that no call can have begun in: none begins before what
// was due has been counted.
func (f *flights) skip(t int64) {
	if idle := f.from + f.n; f.moment(idle) <= t && f.empty() {
		f.from = (t-f.after)/f.width + 1
	}
}

// empty reports whether no slot that is still to be counted holds a call.
func (f *flights) empty() bool {
	for i := range f.rows {
		for j := range f.n {
			if w := f.rows[i][j].Load(); w&underway != 0 && w&counted == 0 {
				return false
			}
		}
	}
	return true
}

// slowAt is when p became slow.
func (v *view) slowAt(p *Permit) int64 {
	if p.slot < 0 {
		return p.at
	}
	return v.slow.moment(p.slot)
}
