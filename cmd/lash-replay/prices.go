package main

import (
	"encoding/json"
	"fmt"
	"math"

	"github.com/lash-go/lash/cmd/internal/program"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/workers/prices"
)

// pricesFlag is the flag --prices of the commands that show usage.
type pricesFlag struct {
	Prices string `placeholder:"FILE" type:"path" help:"Prices of models, to show costs: the file that lash-node serve --prices takes, such as {\"date\": \"2026-03-31\", \"source\": \"our contract\", \"models\": [{\"provider\": \"openai\", \"names\": [\"gpt-5\"], \"input\": 1.25, \"cache_read\": 0.125, \"output\": 10}]}, in US dollars for a million tokens."`
}

// load reads the file of the flag. Without the flag no cost is known.
func (f *pricesFlag) load() (pricing, error) {
	if f.Prices == "" {
		return pricing{}, nil
	}
	data, err := program.ReadFile(f.Prices, program.MaxFileBytes)
	if err != nil {
		return pricing{}, fmt.Errorf("--prices: %w", err)
	}
	list, err := prices.Parse(data)
	if err != nil {
		return pricing{}, fmt.Errorf("--prices %s: %w", f.Prices, err)
	}
	return pricing{list}, nil
}

// pricing says what usage costs. Without prices no cost is known.
type pricing struct{ prices *prices.Prices }

func (c pricing) known() bool { return c.prices != nil }

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

// of is what usage of a model costs.
func (c pricing) of(provider, model string, u events.Usage) micros {
	if c.prices == nil {
		return micros{}
	}
	return dollars(c.prices.Cost(provider, model, u))
}

// anywhere is the cost where the provider is not known.
func (c pricing) anywhere(model string, u events.Usage) micros {
	if c.prices == nil {
		return micros{}
	}
	return dollars(c.prices.CostAnywhere(model, u))
}

// total is the cost of a ledger. It is unknown if that of one entry is.
func (c pricing) total(ledger []projector.LedgerEntry) micros {
	sum := micros{Known: c.known()}
	for _, e := range ledger {
		one := c.anywhere(e.Model, e.Usage)
		sum.N, sum.Known = sum.N+one.N, sum.Known && one.Known
	}
	return sum
}

func dollars(n float64, known bool) micros { return micros{int64(math.Round(n * 1e6)), known} }
