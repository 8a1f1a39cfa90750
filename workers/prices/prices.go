// Package prices has what tokens of models cost: the prices of the build, and files that replace them.
package prices

import (
	"bytes"
	_ "embed" // the default prices
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/lash-go/lash/events"
)

// Prices are the costs of tokens by model. It is read only.
type Prices struct {
	models map[modelName]*rate
	// Date of the prices, YYYY-MM-DD.
	Date string
	// Source of the prices.
	Source string
	file   []byte
}

// JSON is the file of the prices, as [Parse] reads it. It is read only.
func (p *Prices) JSON() []byte { return p.file }

// modelName is a model with the name that its provider reports.
type modelName struct{ provider, model string }

// rate is in US dollars for a million tokens. A missing price is that of input.
type rate struct {
	Provider   string   `json:"provider"`
	Names      []string `json:"names"` // exactly as the provider reports the model
	Input      *float64 `json:"input"`
	Output     *float64 `json:"output"`
	CacheRead  *float64 `json:"cache_read"`
	CacheWrite *float64 `json:"cache_write"`
}

// Limits of a file of prices.
const (
	maxPrices     = 1 << 20 // bytes
	maxModelName  = 200     // bytes
	maxDollarRate = 1e6     // for a million tokens
)

//go:embed prices.json
var shipped []byte

// Default are the prices of this build, with their date and source. They may be out of date.
func Default() (*Prices, error) { return Parse(shipped) }

// Parse reads a file of prices: a JSON object like prices.json of this package. Errors: [*events.FieldError]
// with the entry and the field.
func Parse(data []byte) (*Prices, error) {
	if len(data) > maxPrices {
		return nil, &events.FieldError{Field: "prices", Reason: fmt.Sprintf("has %d bytes, limit is %d", len(data), maxPrices), Err: events.ErrTooLarge}
	}
	var file struct {
		Date   string `json:"date"`
		Source string `json:"source"`
		Models []rate `json:"models"`
	}
	in := json.NewDecoder(bytes.NewReader(data))
	in.DisallowUnknownFields()
	if err := in.Decode(&file); err != nil {
		return nil, badPrice("prices", err.Error())
	}
	if _, err := in.Token(); !errors.Is(err, io.EOF) {
		return nil, badPrice("prices", "has more than one JSON object")
	}
	if _, err := time.Parse(time.DateOnly, file.Date); err != nil {
		return nil, badPrice("date", "want YYYY-MM-DD")
	}
	if file.Source == "" {
		return nil, badPrice("source", "is empty: say where the prices are from")
	}
	p := &Prices{models: make(map[modelName]*rate), Date: file.Date, Source: file.Source, file: data}
	for i := range file.Models {
		if err := p.add(&file.Models[i], fmt.Sprintf("models[%d]", i)); err != nil {
			return nil, err
		}
	}
	return p, nil
}

func badPrice(field, why string) error {
	return &events.FieldError{Field: field, Reason: why, Err: events.ErrInvalid}
}

func (p *Prices) add(r *rate, entry string) error {
	if r.Provider == "" || len(r.Provider) > maxModelName {
		return badPrice(entry+".provider", fmt.Sprintf("has %d bytes, want 1 to %d", len(r.Provider), maxModelName))
	}
	if len(r.Names) == 0 {
		return badPrice(entry+".names", "is empty")
	}
	for field, v := range map[string]*float64{"input": r.Input, "output": r.Output, "cache_read": r.CacheRead, "cache_write": r.CacheWrite} {
		if v == nil && (field == "input" || field == "output") {
			return badPrice(entry+"."+field, "is missing: US dollars for a million tokens")
		}
		if v != nil && (*v < 0 || *v > maxDollarRate) {
			return badPrice(entry+"."+field, fmt.Sprintf("is %v, want 0 to %v US dollars for a million tokens", *v, maxDollarRate))
		}
	}
	for _, name := range r.Names {
		if name == "" || len(name) > maxModelName {
			return badPrice(entry+".names", fmt.Sprintf("has a name of %d bytes, want 1 to %d", len(name), maxModelName))
		}
		key := modelName{r.Provider, name}
		if _, ok := p.models[key]; ok {
			return badPrice(entry+".names", fmt.Sprintf("%q occurs twice", name))
		}
		p.models[key] = r
	}
	return nil
}

// Cost is the price of the usage of a model's reply, in US dollars. It is false for a model without a price: there is
// no estimate.
func (p *Prices) Cost(provider, model string, u events.Usage) (float64, bool) {
	r, ok := p.models[modelName{provider, model}]
	if !ok {
		return 0, false
	}
	return r.cost(u), true
}

func (r *rate) cost(u events.Usage) float64 {
	dollars := 0.0
	for _, part := range []struct {
		tokens int64
		rate   *float64
	}{{u.Input, r.Input}, {u.Output, r.Output}, {u.CacheRead, r.CacheRead}, {u.CacheWrite, r.CacheWrite}} { // reasoning is output
		if part.rate == nil {
			part.rate = r.Input
		}
		dollars += float64(max(part.tokens, 0)) * *part.rate / 1e6
	}
	return dollars
}
