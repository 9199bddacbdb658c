package injector

import (
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"unicode"
	"unicode/utf8"

	"breakwater/internal/reply"
)

// Known is an error that whoever asked can do something about.
type Known struct {
	Err    error
	Status int
	Code   string
}

// Refuse says what went wrong with the status and the code that fit it. What is not
// known is logged under the name of the part, and is the ledger's.
func Refuse(w http.ResponseWriter, r *http.Request, log *slog.Logger, part string, err error, known ...Known) {
	if doc, ok := errors.AsType[*DocumentError](err); ok {
		reply.Problem(w, http.StatusBadRequest, "document", doc.Error())
		return
	}
	for _, k := range known {
		if errors.Is(err, k.Err) {
			reply.Problem(w, k.Status, k.Code, err.Error())
			return
		}
	}
	log.Error(part, "path", r.URL.Path, "err", err)
	if errors.Is(err, ErrUnwritten) {
		reply.Problem(w, http.StatusServiceUnavailable, "stop_unwritten", howFaultsEnd)
		return
	}
	reply.Problem(w, http.StatusServiceUnavailable, "ledger_away", "the ledger cannot be read or written now")
}

func (a *API) fail(w http.ResponseWriter, r *http.Request, err error) {
	Refuse(w, r, a.desk.cfg.Log, "experiments", err,
		Known{ErrNotFound, http.StatusNotFound, "not_found"},
		Known{ErrOverlap, http.StatusConflict, "overlap"},
		Known{ErrHalted, http.StatusConflict, "halted"},
		Known{ErrFrozen, http.StatusConflict, "frozen"},
		Known{ErrFenced, http.StatusConflict, "moved_on"},
		Known{ErrStep, http.StatusConflict, "state"},
		Known{ErrOfDay, http.StatusConflict, "of_gameday"},
		Known{ErrContent, http.StatusConflict, "other_document"},
		Known{ErrSelf, http.StatusForbidden, "self_approval"},
		Known{ErrScope, http.StatusForbidden, "scope"})
}

// Nameable reports whether anything could have id. The database takes no NUL and
// no broken UTF-8, and would call the question an error.
func Nameable(id string) bool {
	return utf8.ValidString(id) && !strings.ContainsFunc(id, unicode.IsControl)
}
