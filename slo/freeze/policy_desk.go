package freeze

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"breakwater/internal/auth"
	"breakwater/internal/conf"
	"breakwater/internal/reply"
)

// PolicyShelf is where control's documents lie.
type PolicyShelf interface {
	// SavePolicy puts the document of a policy in the place of the one of its name, or
	// beside the others, once all of them together are found good, and takes them into
	// force. It says where it lies.
	SavePolicy(ctx context.Context, actor, name, document, reason string) (place string, err error)
}

// One reads exactly one FreezePolicy; name is what mistakes call the text.
func One(name, text string) (Policy, error) {
	var log conf.Log
	file := conf.File{Name: name, Data: []byte(text)}
	found := Parse([]conf.File{file}, &log)
	if err := log.Err(); err != nil {
		return Policy{}, err
	}
	if len(found) != 1 || len(conf.SplitAll([]conf.File{file}, &log)) != 1 {
		return Policy{}, errors.New("the document must be one FreezePolicy")
	}
	return found[0], nil
}

// PolicyDocument is a policy in force, on the wire.
type PolicyDocument struct {
	Name     string `json:"name"`
	Revision string `json:"revision"`
	Document string `json:"document"`
}

// Policies serves GET /api/v1/policies: those in force, as documents that say all that
// was left out too.
func (d *Desk) Policies(w http.ResponseWriter, _ *http.Request) {
	out := []PolicyDocument{}
	for _, p := range d.book.Known().Policies {
		out = append(out, PolicyDocument{p.Name, p.Revision(), p.Document()})
	}
	reply.JSON(w, http.StatusOK, map[string]any{"policies": out})
}

// mostPolicy bounds a document.
const mostPolicy = 64 << 10

// SavePolicy serves POST /api/v1/policies: a policy comes into force. Who may is for the
// routes; that it is somebody of all services is settled here.
func (d *Desk) SavePolicy(shelf PolicyShelf) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var in struct {
			Document string `json:"document"`
			Reason   string `json:"reason"`
		}
		who := auth.From(r.Context())
		if len(who.Services) > 0 {
			reply.Problem(w, http.StatusForbidden, "out_of_scope", "a policy may rule every service, and this token is for some")
			return
		}
		if !reply.Decode(w, r, &in) {
			return
		}
		in.Reason = strings.TrimSpace(in.Reason)
		if len(in.Reason) < 3 || !plain(in.Reason, 1000) || len(in.Document) > mostPolicy {
			reply.Problem(w, http.StatusUnprocessableEntity, "bad_policy", "reason: must be said in 3 to 1000 bytes; document: must be at most 64 KiB")
			return
		}
		p, err := One("policy.yaml", in.Document)
		if err != nil {
			reply.Problem(w, http.StatusUnprocessableEntity, "bad_policy", err.Error())
			return
		}
		place, err := shelf.SavePolicy(r.Context(), who.Name, p.Name, in.Document, in.Reason)
		if why, ok := errors.AsType[*Refusal](err); ok {
			reply.Problem(w, http.StatusConflict, why.Code, why.Detail)
			return
		}
		if err != nil {
			reply.Away(w)
			return
		}
		reply.JSON(w, http.StatusCreated, map[string]string{"name": p.Name, "revision": p.Revision(), "place": place})
	}
}

// NotSaved says why a policy did not come into force.
func NotSaved(code, format string, args ...any) *Refusal { return refuse(code, format, args...) }
