package main

import (
	"context"
	"net/http"

	"breakwater/injector"
	"breakwater/internal/store"
)

// pageScenarios are scenarios as pages see them: the documents of the store, and a run
// judged and started by the code that the API has.
type pageScenarios struct {
	store *store.Store
	desk  *injector.Desk
	api   *injector.API
}

// Documents are the scenarios that control runs.
func (p pageScenarios) Documents(ctx context.Context) ([]injector.Document, error) {
	return p.store.Documents(ctx)
}

// Preview says what a run would do.
func (p pageScenarios) Preview(ctx context.Context, id, document string) (injector.Preview, error) {
	return p.desk.Preview(ctx, id, document)
}

// Create starts a run.
func (p pageScenarios) Create(w http.ResponseWriter, r *http.Request) { p.api.Create(w, r) }
