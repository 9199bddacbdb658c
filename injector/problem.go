package injector

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"unicode"
	"unicode/utf8"
)

// fail says what went wrong with the status and the code that fit it.
func (a *API) fail(w http.ResponseWriter, r *http.Request, err error) {
	if doc, ok := errors.AsType[*DocumentError](err); ok {
		problem(w, http.StatusBadRequest, "document", doc.Error())
		return
	}
	for _, known := range []struct {
		err    error
		status int
		code   string
	}{
		{ErrNotFound, http.StatusNotFound, "not_found"},
		{ErrOverlap, http.StatusConflict, "overlap"},
		{ErrHalted, http.StatusConflict, "halted"},
		{ErrFrozen, http.StatusConflict, "frozen"},
		{ErrFenced, http.StatusConflict, "moved_on"},
		{ErrStep, http.StatusConflict, "state"},
		{ErrContent, http.StatusConflict, "other_document"},
		{ErrSelf, http.StatusForbidden, "self_approval"},
		{ErrScope, http.StatusForbidden, "scope"},
	} {
		if errors.Is(err, known.err) {
			problem(w, known.status, known.code, err.Error())
			return
		}
	}
	a.desk.cfg.Log.Error("experiments", "path", r.URL.Path, "err", err)
	if errors.Is(err, ErrUnwritten) {
		problem(w, http.StatusServiceUnavailable, "stop_unwritten", howFaultsEnd)
		return
	}
	problem(w, http.StatusServiceUnavailable, "ledger_away", "the ledger cannot be read or written now")
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	send(w, status, v)
}

func send(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	// The client went away: nobody is left to tell.
	_ = json.NewEncoder(w).Encode(v)
}

// problem answers in the form of RFC 9457, with the code that programs go by.
func problem(w http.ResponseWriter, status int, code, detail string) {
	w.Header().Set("Content-Type", "application/problem+json")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	send(w, status, struct {
		Type   string `json:"type"`
		Title  string `json:"title"`
		Status int    `json:"status"`
		Code   string `json:"code"`
		Detail string `json:"detail"`
	}{"about:blank", http.StatusText(status), status, code, detail})
}

// nameable reports whether anything could have id. The database takes no NUL and
// no broken UTF-8, and would call the question an error.
func nameable(id string) bool {
	return utf8.ValidString(id) && !strings.ContainsFunc(id, unicode.IsControl)
}
