package webhook

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net/http"
	"time"

	"breakwater/internal/auth"
	"breakwater/internal/reply"
	"breakwater/slo/freeze"
)

// Answer is what a message was answered.
type Answer struct {
	Status int
	Type   string
	Body   []byte
}

// Seen remembers answers by the id of their message, for longer than Tolerance.
type Seen interface {
	// SeenWebhook returns what id of source was answered. Where it was never seen it
	// is taken: whoever took it answers, and others who send it meanwhile are told
	// to come again (false, nil Answer).
	SeenWebhook(ctx context.Context, source, id string, now time.Time) (first bool, was *Answer, err error)
	AnsweredWebhook(ctx context.Context, source, id string, a Answer) error
}

// Checker knows a sender's way to sign: it returns the id of a message, or why the
// message is not to be believed. Secret is the standard one.
type Checker interface {
	Check(h http.Header, body []byte, now time.Time) (id string, err error)
}

// Receiver lets through what is signed, fresh and new, as Who.
type Receiver struct {
	Source string
	Secret Checker
	Who    auth.Principal
	Seen   Seen
	Now    func() time.Time // nil: the clock
	Log    *slog.Logger
}

const maxBody = 1 << 20

// Then serves next for each message once; a repeated one gets the same answer and
// has no second effect.
func (v Receiver) Then(next http.Handler) http.Handler {
	if v.Now == nil {
		v.Now = time.Now
	}
	if v.Log == nil {
		v.Log = slog.New(slog.DiscardHandler)
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
		if err != nil {
			reply.Problem(w, http.StatusRequestEntityTooLarge, "too_large", "the body is larger than 1 MiB, or was cut")
			return
		}
		now := v.Now()
		id, err := v.Secret.Check(r.Header, body, now)
		if err != nil {
			reply.Problem(w, http.StatusUnauthorized, "webhook", err.Error())
			return
		}
		if err := freeze.Single(body); err != nil {
			// Signed or not: whoever checked it may have read the other of two keys.
			reply.Problem(w, http.StatusBadRequest, "bad_body", err.Error())
			return
		}
		first, was, err := v.Seen.SeenWebhook(r.Context(), v.Source, id, now)
		switch {
		case err != nil:
			reply.Problem(w, http.StatusServiceUnavailable, "database_away", "whether this message is new cannot be known at present; send it again")
			return
		case was != nil:
			w.Header().Set("Content-Type", was.Type)
			w.WriteHeader(was.Status)
			_, _ = w.Write(was.Body)
			return
		case !first:
			w.Header().Set("Retry-After", "1")
			reply.Problem(w, http.StatusConflict, "under_way", "the same message is being answered; send it again")
			return
		}
		r = r.WithContext(auth.With(r.Context(), v.Who))
		r.Body = io.NopCloser(bytes.NewReader(body))
		kept := &keeper{header: http.Header{}, status: http.StatusOK}
		next.ServeHTTP(kept, r)
		a := Answer{kept.status, kept.header.Get("Content-Type"), kept.body.Bytes()}
		// That we could not is no answer for ever: sent again, the message is taken anew.
		if a.Status < http.StatusInternalServerError {
			if err := v.Seen.AnsweredWebhook(context.WithoutCancel(r.Context()), v.Source, id, a); err != nil {
				v.Log.Error("the answer to a webhook was not kept", "source", v.Source, "webhook_id", id, "err", err)
			}
		}
		for name, values := range kept.header {
			w.Header()[name] = values
		}
		w.WriteHeader(a.Status)
		_, _ = w.Write(a.Body)
	})
}

// keeper holds an answer back until it is kept.
type keeper struct {
	header http.Header
	status int
	wrote  bool
	body   bytes.Buffer
}

func (k *keeper) Header() http.Header { return k.header }

func (k *keeper) WriteHeader(status int) {
	if !k.wrote {
		k.status, k.wrote = status, true
	}
}

func (k *keeper) Write(b []byte) (int, error) {
	k.wrote = true
	return k.body.Write(b)
}
