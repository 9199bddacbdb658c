package injector

import "net/http"

// WriteJSON and Problem answer as the API of experiments does, for the rooms beside
// it that speak of game days, findings and readiness.
func WriteJSON(w http.ResponseWriter, status int, v any) { writeJSON(w, status, v) }

// Problem answers in the form of RFC 9457.
func Problem(w http.ResponseWriter, status int, code, detail string) {
	problem(w, status, code, detail)
}

// Nameable reports whether anything could have id.
func Nameable(id string) bool { return nameable(id) }

// RunView is a run as the API shows it.
type RunView = runJSON

// RunViews shows runs.
func RunViews(runs []Run) []RunView {
	out := []RunView{}
	for _, r := range runs {
		out = append(out, showRun(r))
	}
	return out
}
