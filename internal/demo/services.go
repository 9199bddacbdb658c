package demo

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"strings"

	"github.com/go-chi/chi/v5"
)

// maxBody bounds what a service of the shop reads of a request.
const maxBody = 64 << 10

// operation answers one route. Answers are made from the request alone: nothing
// is kept, so that a demo can run for months.
func (s *Shop) operation(op Operation) http.HandlerFunc {
	switch op.Route {
	case "order-create":
		return s.createOrder
	case "order-get":
		return func(w http.ResponseWriter, r *http.Request) {
			id := chi.URLParam(r, "id")
			reply(w, http.StatusOK, map[string]any{"id": id, "sku": pick("sku", id, 500), "quantity": 1 + int(draw(0, id)*3), "state": "paid"})
		}
	case "points-deduct":
		return posted("user", func(user string) map[string]any {
			return map[string]any{"user": user, "deducted": 10, "balance": balance(user)}
		})
	case "points-balance":
		return func(w http.ResponseWriter, r *http.Request) {
			user := chi.URLParam(r, "user")
			reply(w, http.StatusOK, map[string]any{"user": user, "balance": balance(user)})
		}
	case "inventory-reserve":
		return posted("sku", func(sku string) map[string]any { return map[string]any{"sku": sku, "reserved": 1} })
	case "inventory-get":
		return func(w http.ResponseWriter, r *http.Request) {
			sku := chi.URLParam(r, "sku")
			reply(w, http.StatusOK, map[string]any{"sku": sku, "stock": int(draw(0, sku) * 900)})
		}
	case "coupon-redeem":
		return posted("code", func(code string) map[string]any { return map[string]any{"code": code, "percent": 10} })
	case "coupon-get":
		return func(w http.ResponseWriter, r *http.Request) {
			code := chi.URLParam(r, "code")
			if strings.HasPrefix(code, "gone") { // people type old codes: nobody's failure
				reply(w, http.StatusNotFound, map[string]any{"error": "no such coupon"})
				return
			}
			reply(w, http.StatusOK, map[string]any{"code": code, "percent": 10})
		}
	}
	return http.NotFound
}

// posted answers a POST whose body must name one thing.
func posted(field string, answer func(value string) map[string]any) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		body, err := decode(w, r)
		value, _ := body[field].(string)
		if err != nil || value == "" {
			reply(w, http.StatusBadRequest, map[string]any{"error": field + " is missing"})
			return
		}
		reply(w, http.StatusOK, answer(value))
	}
}

func decode(w http.ResponseWriter, r *http.Request) (map[string]any, error) {
	var body map[string]any
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBody)).Decode(&body); err != nil {
		return nil, fmt.Errorf("read the request: %w", err)
	}
	_, err := io.Copy(io.Discard, r.Body) // read to its end, so the connection is used again
	return body, err
}

func reply(w http.ResponseWriter, status int, body map[string]any) {
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // the caller may have gone
}

func balance(user string) int { return int(math.Round(draw(0, "balance", user) * 5000)) }

// pick names one of n things for a key.
func pick(kind, key string, n int) string {
	return fmt.Sprintf("%s-%03d", kind, int(draw(0, kind, key)*float64(n)))
}

// createOrder calls the other three through the gateway, and gets by without
// them: stock is booked later, points are credited later, the coupon is left out.
// An outage of points is no outage of orders.
func (s *Shop) createOrder(w http.ResponseWriter, r *http.Request) {
	body, err := decode(w, r)
	sku, _ := body["sku"].(string)
	user, _ := body["user"].(string)
	if err != nil || sku == "" || user == "" {
		reply(w, http.StatusBadRequest, map[string]any{"error": "sku and user are needed"})
		return
	}
	id := r.Header.Get(idHeader)
	out := map[string]any{"id": pick("order", id, 1_000_000), "sku": sku, "stock": "reserved"}
	if !s.orders.first(r.Header.Get(keyHeader)) {
		reply(w, http.StatusOK, map[string]any{"id": out["id"], "sku": sku, "stock": "as ordered before"})
		return
	}
	if !s.call(r, "inventory-reserve", "/inventory/reserve", map[string]any{"sku": sku}) {
		out["stock"] = "to be confirmed"
	}
	if code, _ := body["coupon"].(string); code != "" {
		out["coupon"] = "redeemed"
		if !s.call(r, "coupon-redeem", "/coupon/redeem", map[string]any{"code": code}) {
			out["coupon"] = "not now"
		}
	}
	// Every third customer pays with points.
	if draw(s.cfg.Seed, "pays with points", id)*3 < 1 {
		out["points"] = "deducted"
		if !s.call(r, "points-deduct", "/points/deduct", map[string]any{"user": user}) {
			out["points"] = "to be deducted later"
		}
	}
	reply(w, http.StatusCreated, out)
}

// call sends one request to the gateway under the caller's request id, and tells
// whether it was answered well. It goes on when the customer hangs up: half a
// booking helps nobody.
func (s *Shop) call(r *http.Request, route, path string, body map[string]any) bool {
	req := request{route: route, method: http.MethodPost, path: path, caller: Order,
		id: r.Header.Get(idHeader), trace: r.Header.Get("X-Request-Id"), body: body}
	a := send(context.WithoutCancel(r.Context()), s.client, *s.gateway.Load(), req)
	s.cfg.Ledger.Add(a)
	return a.Class() == Good
}
