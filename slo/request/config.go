package request

import "time"

// Config is one report of a gateway on its configuration.
type Config struct {
	At                           time.Time
	Env, Gateway, Revision, Hash string
	Error                        string // why a newer document was refused; Revision serves on
	Whole                        bool   // the effective values were reported with it
}

// Revision is a configuration that gateways served.
type Revision struct {
	Env, Name, Hash string
	First, Last     time.Time // reports of it
	Gateways        []string  // ascending
	Serving         []string  // those whose newest report it is
	Whole           bool      // its values are known
}

// Revisions puts reports, the newest first, together by environment and revision, the
// last reported first. Refusals are no revisions of their own.
func Revisions(reports []Config) (out []Revision, refused []Config) {
	at := map[[2]string]int{}
	newest := map[[2]string]bool{}
	for _, c := range reports {
		if c.Error != "" {
			refused = append(refused, c)
		}
		if c.Revision == "" {
			continue
		}
		key := [2]string{c.Env, c.Revision}
		i, ok := at[key]
		if !ok {
			i = len(out)
			at[key] = i
			out = append(out, Revision{Env: c.Env, Name: c.Revision, Hash: c.Hash, Last: c.At})
		}
		r := &out[i]
		r.First, r.Whole = c.At, r.Whole || c.Whole
		r.Gateways = insert(r.Gateways, c.Gateway)
		if g := [2]string{c.Env, c.Gateway}; !newest[g] {
			newest[g] = true
			r.Serving = insert(r.Serving, c.Gateway)
		}
	}
	return out, refused
}

// insert puts name into a list that ascends, once.
func insert(list []string, name string) []string {
	for i, have := range list {
		switch {
		case have == name:
			return list
		case have > name:
			return append(list[:i], append([]string{name}, list[i:]...)...)
		}
	}
	return append(list, name)
}
