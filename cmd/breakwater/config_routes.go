package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/go-chi/chi/v5"

	"breakwater/internal/auth"
	"breakwater/internal/reply"
	"breakwater/internal/store"
	"breakwater/web"
)

// configRoutes is the history of documents, under /api/v1. All of it is for admins
// of all services: texts name hosts and files, and a roll back touches everything.
func (c *control) configRoutes(r chi.Router) {
	r = r.With(c.guard.Require(auth.Admin), everyService)
	r.Get("/config/revisions", c.listDocuments)
	r.Get("/config/revisions/{number}", c.showDocuments)
	r.Get("/config/revisions/{number}/changes", c.compareDocuments)
	r.Post("/config/rollback", c.rollBackDocuments)
}

// everyService keeps out an admin of some services.
func everyService(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if len(auth.From(r.Context()).Services) > 0 {
			reply.Problem(w, http.StatusForbidden, "out_of_scope", "the documents are those of all services, and this token is for some")
			return
		}
		next.ServeHTTP(w, r)
	})
}

func (c *control) listDocuments(w http.ResponseWriter, r *http.Request) {
	list, err := documentDesk{c}.Revisions(r.Context())
	c.answerDocuments(w, struct {
		Revisions []web.DocumentRevision `json:"revisions"`
	}{list}, err)
}

func (c *control) showDocuments(w http.ResponseWriter, r *http.Request) {
	number, ok := numberOf(w, chi.URLParam(r, "number"))
	if !ok {
		return
	}
	d, found, err := c.store.DocumentRevision(r.Context(), number)
	if err == nil && !found {
		err = &web.DocumentTrouble{Status: http.StatusNotFound, Code: "no_revision", Text: fmt.Sprintf("No revision %d of the documents is kept.", number)}
	}
	c.answerDocuments(w, d, err)
}

func (c *control) compareDocuments(w http.ResponseWriter, r *http.Request) {
	number, ok := numberOf(w, chi.URLParam(r, "number"))
	if !ok {
		return
	}
	change, err := documentDesk{c}.Compare(r.Context(), number)
	c.answerDocuments(w, change, err)
}

// rollBackAsk is what a roll back is asked with. Seen, the newest revision that who
// asks has seen, keeps two people from undoing one another's work unseen.
type rollBackAsk struct {
	Revision int64  `json:"revision"`
	Seen     int64  `json:"seen"`
	Reason   string `json:"reason"`
}

// rolledBack tells what came of it: Changed false means that it was in place.
type rolledBack struct {
	Revision web.DocumentRevision `json:"revision"`
	Changed  bool                 `json:"changed"`
}

func (c *control) rollBackDocuments(w http.ResponseWriter, r *http.Request) {
	var ask rollBackAsk
	body := json.NewDecoder(http.MaxBytesReader(w, r.Body, 64<<10))
	body.DisallowUnknownFields()
	if err := body.Decode(&ask); err != nil {
		reply.Problem(w, http.StatusBadRequest, "bad_request", "the body must be JSON with revision, seen and reason: "+err.Error())
		return
	}
	if ask.Revision < 1 || ask.Seen < 1 {
		reply.Problem(w, http.StatusUnprocessableEntity, "bad_revision", fmt.Sprintf("revision and seen must be numbers of revisions, got %d and %d", ask.Revision, ask.Seen))
		return
	}
	if why := web.ReasonRule(ask.Reason); why != "" {
		reply.Problem(w, http.StatusUnprocessableEntity, "bad_reason", why)
		return
	}
	made, err := documentDesk{c}.RollBack(r.Context(), auth.From(r.Context()).Name, ask.Revision, ask.Seen, strings.TrimSpace(ask.Reason))
	c.answerDocuments(w, rolledBack{made, made.How == store.DocumentsRolledBack && made.Restores == ask.Revision && made.Number > ask.Seen}, err)
}

func numberOf(w http.ResponseWriter, text string) (int64, bool) {
	number, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		reply.Problem(w, http.StatusNotFound, "no_revision", fmt.Sprintf("revisions are numbers, got %q", text))
	}
	return number, err == nil
}

func (c *control) answerDocuments(w http.ResponseWriter, v any, err error) {
	if t, ok := errors.AsType[*web.DocumentTrouble](err); ok {
		reply.Problem(w, t.Status, t.Code, t.Error())
		return
	}
	if err != nil {
		c.log.Error("documents", "err", err)
		reply.Problem(w, http.StatusServiceUnavailable, "database_away", "the revisions of the documents cannot be read at the moment")
		return
	}
	reply.JSON(w, http.StatusOK, v)
}

// audited enters what is asked for in the audit first, for handlers that keep nothing
// themselves and still reach people.
func (c *control) audited(action, object string) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if err := c.store.Audit(r.Context(), auth.Entry{Actor: auth.From(r.Context()).Name, Action: action, Object: object}); err != nil {
				c.log.Error("nothing is done that cannot be audited", "action", action, "err", err)
				reply.Problem(w, http.StatusServiceUnavailable, "database_away", "the audit takes no row at the moment, so nothing was done")
				return
			}
			next.ServeHTTP(w, r)
		})
	}
}
