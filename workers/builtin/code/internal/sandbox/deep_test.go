package sandbox

import (
	"strings"
	"testing"

	"github.com/lash-go/lash/internal/runtest"
)

// TestSizedDeepStatesAreRefused restores nested states. A stack overflow would end the process, which no test could report.
func TestSizedDeepStatesAreRefused(t *testing.T) {
	t.Parallel()
	depths := []int{200, 100_000, 10_000_000}
	if !runtest.Long() {
		depths = depths[:2]
	}
	for _, depth := range depths {
		nest := func(opening, inside, closing string) string {
			return strings.Repeat(opening, depth) + inside + strings.Repeat(closing, depth)
		}
		for name, state := range map[string]string{
			"arrays": nest("[", "", "]"), "objects": nest(`{"a":`, "1", "}"), "open": nest("[", "", ""), "open_objects": nest(`{"not":`, "", ""),
			"texts": nest(`["]",`, "1", "]"), "variable": `{"v":1,"vars":{"x":` + nest("[", "", "]") + `}}`,
		} {
			resp, err := Run(t.Context(), Limits{}, Request{Code: "1", State: []byte(state)}, newDesk())
			if err == nil && resp.Error == "" {
				t.Errorf("%s, %d deep: got no error", name, depth)
			}
		}
	}
}
