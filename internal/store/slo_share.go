package store

import (
	"slices"
	"time"

	"breakwater/slo"
)

// sharedBack is how far back the spans of a service are cut where another one begins
// or ends. Minutes are kept for longer by far: nothing is lost to a cut within an hour,
// as it would be where minutes are gone and only the hour is left.
const sharedBack = 4 * day

// parts are spans without overlap that many asks are made of. The windows of a promise
// lie in one another, and promises of a service have the same windows: each of their
// rows is read once, and not with each window it is in.
type parts struct {
	asks
	index map[ask]int
}

func (p *parts) add(q ask) int {
	i, ok := p.index[q]
	if !ok {
		i = len(p.service)
		p.index[q] = i
		p.asks.add(q)
	}
	return i
}

type owner struct{ service, env string }

// share cuts a into parts, and tells of each ask which of them add up to it, in order
// of time.
func share(a *asks) (p parts, of [][]int) {
	p = parts{index: map[ask]int{}}
	cuts := map[owner][]time.Time{}
	for i := range a.service {
		if a.since[i].Before(a.end[i]) && a.end[i].After(a.shared) && !a.shared.IsZero() {
			o := owner{a.service[i], a.env[i]}
			cuts[o] = append(cuts[o], a.since[i], a.end[i])
		}
	}
	for o, all := range cuts {
		slices.SortFunc(all, time.Time.Compare)
		// What is counted now is apart from the hours before, which change no more.
		if hour := all[len(all)-1].Truncate(time.Hour); hour.After(all[0]) {
			all = append(all, hour)
			slices.SortFunc(all, time.Time.Compare)
		}
		if i, _ := slices.BinarySearchFunc(all, a.shared, time.Time.Compare); i > 0 {
			all = append([]time.Time{a.shared}, all[i:]...)
		}
		cuts[o] = slices.CompactFunc(all, time.Time.Equal)
	}
	of = make([][]int, len(a.service))
	for i := range a.service {
		q := ask{a.service[i], a.env[i], a.since[i].UTC(), a.end[i].UTC()}
		if !q.since.Before(q.until) {
			continue
		}
		all := cuts[owner{q.service, q.env}]
		old := q.until // what is not cut
		if len(all) > 0 && all[0].Before(old) {
			old = all[0]
		}
		if q.since.Before(old) {
			of[i] = append(of[i], p.add(ask{q.service, q.env, q.since, old.UTC()}))
			q.since = old
		}
		from, _ := slices.BinarySearchFunc(all, q.since, time.Time.Compare)
		for j := from; j+1 < len(all) && all[j].Before(q.until); j++ {
			of[i] = append(of[i], p.add(ask{q.service, q.env, all[j].UTC(), all[j+1].UTC()}))
		}
	}
	return p, of
}

// added is what the parts of each ask make together.
func added(parts []slo.Tally, of [][]int) []slo.Tally {
	out := make([]slo.Tally, len(of))
	known := map[string]int{} // promises of a service ask for the same
	var key []byte
	for i, list := range of {
		key = key[:0]
		for _, n := range list {
			key = append(key, byte(n), byte(n>>8), byte(n>>16), byte(n>>24))
		}
		if j, ok := known[string(key)]; ok {
			out[i] = out[j]
			continue
		}
		for _, n := range list {
			out[i] = out[i].Plus(parts[n])
		}
		known[string(key)] = i
	}
	return out
}
