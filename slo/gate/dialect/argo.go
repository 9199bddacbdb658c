package dialect

import (
	"bytes"
	"encoding/json"
	"net/http"

	"breakwater/internal/reply"
)

// Argo serves /api/v1/gate/argo for the web metric of Argo Rollouts: with
// successCondition "result.ok" and jsonPath "{$.data}". A measurement that errors
// does not fail there, and an empty or unreadable body passes (argo-rollouts#4479,
// #4535): so whatever happens the answer is 200 and says ok, true or false.
func (d *Desk) Argo(w http.ResponseWriter, r *http.Request) {
	sent := map[string]string{}
	if r.Method == http.MethodPost || r.Method == http.MethodPut {
		if err := body(w, r, &sent); err != nil {
			reply.JSON(w, http.StatusOK, argo{unsaid("bad_body", err.Error())})
			return
		}
	}
	q, err := read(r, sent)
	if err != nil {
		reply.JSON(w, http.StatusOK, argo{unsaid("bad_parameter", err.Error())})
		return
	}
	reply.JSON(w, http.StatusOK, argo{said(q.settle(d.cfg.Gate.Answer(r.Context(), q.Request)))})
}

type argo struct {
	Data Said `json:"data"`
}

// ArgoAlways makes an answer of whatever else goes wrong before Argo is asked, as a
// token that has ended: Argo would take it for an error of the measurement, and
// let the release go on when only errors come.
func ArgoAlways(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		kept := &held{header: http.Header{}, status: http.StatusOK}
		next.ServeHTTP(kept, r)
		if kept.status == http.StatusOK && json.Valid(kept.body.Bytes()) {
			for name, values := range kept.header {
				w.Header()[name] = values
			}
			_, _ = w.Write(kept.body.Bytes())
			return
		}
		var problem struct{ Code, Detail string }
		if json.Unmarshal(kept.body.Bytes(), &problem) != nil || problem.Code == "" {
			problem.Code, problem.Detail = "no_answer", http.StatusText(kept.status)
		}
		reply.JSON(w, http.StatusOK, argo{unsaid(problem.Code, problem.Detail)})
	})
}

// held keeps an answer back until it is looked at.
type held struct {
	header http.Header
	status int
	wrote  bool
	body   bytes.Buffer
}

func (h *held) Header() http.Header { return h.header }

func (h *held) WriteHeader(status int) {
	if !h.wrote {
		h.status, h.wrote = status, true
	}
}

func (h *held) Write(b []byte) (int, error) {
	h.wrote = true
	return h.body.Write(b)
}
