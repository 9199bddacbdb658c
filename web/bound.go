package web

import "breakwater/slo"

// mostListed is how many rows a list of all services or promises shows at first, the worst
// of them. A page of many hundreds is sent anew to every reader at each change.
const mostListed = 200

// bounded are the first of all, and what leads to the rest; all of them where the
// address asks for that.
func bounded[T any](v view, all []T, most int) (shown []T, rest Link) {
	if len(all) <= most || v.r.URL.Query().Get("all") == "1" {
		return all, Link{}
	}
	return all[:most], Link{Name: v.say("Show all %s", slo.Count(int64(len(all)))), Href: with(v.r, "all", "1")}
}
