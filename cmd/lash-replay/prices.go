package main

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
)

// pricesFlag is the flag --prices of the commands that show usage.
type pricesFlag struct {
	Prices string `placeholder:"FILE" type:"path" help:"Prices of models, to show costs: a JSON object of US dollars per million tokens by model, such as {\"gpt-5*\": {\"input\": 1.25, \"output\": 10, \"cache_read\": 0.125, \"cache_write\": 0}}."`
}

// price is what a model costs, in US dollars per million tokens. So tokens times price are millionths of a dollar.
type price struct {
	Input      float64 `json:"input"`
	Output     float64 `json:"output"`
	CacheRead  float64 `json:"cache_read"`
	CacheWrite float64 `json:"cache_write"`
}

// prices are prices by model. A key that ends with * is for all models that begin with it; the longest one counts.
type prices map[string]price

// maxPrice bounds a price, so that sums stay exact.
const maxPrice = 1e6

// load reads the file of the flag. Without the flag there are no prices.
func (f *pricesFlag) load() (prices, error) {
	if f.Prices == "" {
		return nil, nil
	}
	data, err := os.ReadFile(filepath.Clean(f.Prices))
	if err != nil {
		return nil, fmt.Errorf("--prices: %w", err)
	}
	var list prices
	if err := json.Unmarshal(data, &list); err != nil {
		return nil, fmt.Errorf("--prices %s: %w", f.Prices, err)
	}
	for model, p := range list {
		for _, n := range []float64{p.Input, p.Output, p.CacheRead, p.CacheWrite} {
			if n < 0 || n > maxPrice || math.IsNaN(n) {
				return nil, fmt.Errorf("--prices %s: %s: a price is from 0 to %g dollars per million tokens, not %g", f.Prices, quoted(model), maxPrice, n)
			}
		}
	}
	return list, nil
}

func (p prices) of(model string) (price, bool) {
	if found, ok := p[model]; ok {
		return found, true
	}
	best, found := -1, price{}
	for key, value := range p {
		if prefix, wild := strings.CutSuffix(key, "*"); wild && strings.HasPrefix(model, prefix) && len(prefix) > best {
			best, found = len(prefix), value
		}
	}
	return found, best >= 0
}

// micros is a cost in millionths of a US dollar. It is unknown for a model without a price.
type micros struct {
	N     int64
	Known bool
}

// MarshalJSON writes null where the cost is unknown.
func (m micros) MarshalJSON() ([]byte, error) {
	if !m.Known {
		return []byte("null"), nil
	}
	return json.Marshal(m.N)
}

// IsZero reports whether the cost is unknown, so that omitzero leaves it out.
func (m micros) IsZero() bool { return !m.Known }

// String is the cost in dollars. Where it is unknown the text is empty.
func (m micros) String() string {
	if !m.Known {
		return ""
	}
	return fmt.Sprintf("$%.4f", float64(m.N)/1e6)
}

// cost is what usage of a model costs.
func (p prices) cost(model string, u events.Usage) micros {
	at, ok := p.of(model)
	if !ok {
		return micros{}
	}
	sum := at.Input*float64(u.Input) + at.Output*float64(u.Output) + at.CacheRead*float64(u.CacheRead) + at.CacheWrite*float64(u.CacheWrite)
	return micros{int64(math.Round(sum)), true}
}

// total is the cost of several models. It is unknown if that of one is.
func (p prices) total(list []projector.LedgerEntry) micros {
	sum := micros{Known: len(p) > 0}
	for _, e := range list {
		c := p.cost(e.Model, e.Usage)
		sum.N, sum.Known = sum.N+c.N, sum.Known && c.Known
	}
	return sum
}
