package blob_test

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session/blob"
)

// counted counts the reads of bodies.
type counted struct {
	blob.Reader
	count atomic.Int64
}

func (c *counted) Blob(ctx context.Context, ref events.BlobRef) ([]byte, error) {
	c.count.Add(1)
	return c.Reader.Blob(ctx, ref)
}

// TestContracts reads contracts as histories of others may name them: what is none leaves its tool without one, and the others have theirs. One
// that is too large is not read, and one that several tools have is read once.
func TestContracts(t *testing.T) {
	t.Parallel()
	b := bustest.Start(t)
	deep := events.MaxJSONDepth + 1
	bodies := map[string][]byte{
		"good": []byte(`{"schema":{"type":"object"},"examples":[{"a":1}]}`), "no_json": []byte("{"), "a_list": []byte("[1]"),
		"deep_schema":   []byte(`{"schema":` + strings.Repeat("[", deep) + strings.Repeat("]", deep) + `}`),
		"many_examples": []byte(`{"examples":[` + strings.Repeat("1,", events.MaxExamples) + `1]}`),
		"long_example":  []byte(`{"examples":["` + strings.Repeat("x", events.MaxExampleBytes) + `"]}`),
		"large":         bytes.Repeat([]byte(" "), events.MaxContractBytes+1),
	}
	tools := []events.ToolEntry{{Name: "gone", Contract: events.BlobRef{Digest: strings.Repeat("0f", 32), Size: 9}}}
	for name, body := range bodies {
		ref, err := b.PutBlob(t.Context(), body)
		runtest.NoError(t, err)
		tools = append(tools, events.ToolEntry{Name: name, Contract: ref})
	}
	for i := range 3 {
		tools = append(tools, events.ToolEntry{Name: "good", Namespace: fmt.Sprint("n", i), Contract: tools[slices.IndexFunc(tools, func(t events.ToolEntry) bool { return t.Name == "good" })].Contract})
	}
	reads := &counted{Reader: b}
	got, err := blob.Contracts(t.Context(), reads, tools, nil)
	if want := int64(len(bodies)); reads.count.Load() != want { // the one that is gone, and not the large one
		t.Errorf("reads: got %d, want %d", reads.count.Load(), want)
	}
	if err != nil || len(got) != len(tools) {
		t.Fatalf("got %d tools, %v, want %d", len(got), err, len(tools))
	}
	for i := range got {
		if has := !got[i].LacksContract(); has != (got[i].Name == "good") {
			t.Errorf("%s: has a contract: %t", got[i].Name, has)
		}
		if !tools[i].LacksContract() {
			t.Errorf("%s: the list of the caller has changed", tools[i].Name)
		}
	}
}
