// Package reply writes what control's API answers: JSON, and problems in the form of
// RFC 9457. Nobody may keep an answer: a cached allow is an allow from missing data.
package reply

import (
	"encoding/json"
	"net/http"
)

// JSON answers with v. What cannot be written as JSON becomes a problem of ours.
func JSON(w http.ResponseWriter, status int, v any) {
	body, err := json.Marshal(v)
	if err != nil {
		Problem(w, http.StatusInternalServerError, "internal", err.Error())
		return
	}
	send(w, status, "application/json", body)
}

// Problem answers with application/problem+json; code is what programs go by.
func Problem(w http.ResponseWriter, status int, code, detail string) {
	body, err := json.Marshal(struct {
		Type   string `json:"type"`
		Title  string `json:"title"`
		Status int    `json:"status"`
		Code   string `json:"code"`
		Detail string `json:"detail"`
	}{"about:blank", http.StatusText(status), status, code, detail})
	if err != nil {
		panic("reply: a problem did not marshal: " + err.Error())
	}
	w.Header().Set("X-Content-Type-Options", "nosniff")
	send(w, status, "application/problem+json", body)
}

// OutOfScope refuses whoever's token is for other services.
func OutOfScope(w http.ResponseWriter) {
	Problem(w, http.StatusForbidden, "out_of_scope", "the token does not cover this service")
}

// Away says that the database is, and that nothing was done.
func Away(w http.ResponseWriter) {
	Problem(w, http.StatusServiceUnavailable, "database_away", "it cannot be read or written down at present, so nothing was done")
}

// most bytes may a body have.
const most = 128 << 10

// Decode reads the body of r, one JSON value without members that into does not know,
// or answers what is wrong with it and reports false.
func Decode(w http.ResponseWriter, r *http.Request, into any) bool {
	dec := json.NewDecoder(http.MaxBytesReader(w, r.Body, most))
	dec.DisallowUnknownFields()
	if err := dec.Decode(into); err != nil {
		Problem(w, http.StatusBadRequest, "bad_body", err.Error())
		return false
	}
	return true
}

func send(w http.ResponseWriter, status int, kind string, body []byte) {
	w.Header().Set("Content-Type", kind)
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = w.Write(append(body, '\n')) // the client may have gone
}
