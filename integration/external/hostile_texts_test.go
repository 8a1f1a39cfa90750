package external

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/session/plugin/wire"
)

// longestLog is the most that one line of a node's log has of an instance, in bytes.
const longestLog = 4 << 10

// TestTextsOfInstancesInTheLog has instances answer starts of sessions and observing hooks with errors of nearly a megabyte. The log of
// the node has the beginnings.
func TestTextsOfInstancesInTheLog(t *testing.T) {
	t.Parallel()
	const size = 900 << 10
	for name, answer := range map[string]any{
		"message": wire.Placed{Error: &wire.Error{Code: wire.CodeInternal, Message: strings.Repeat("m", size)}},
		"code":    wire.Placed{Error: &wire.Error{Code: strings.Repeat("c", size), Message: "m"}},
		"number":  json.RawMessage(`{"error":` + strings.Repeat("7", size) + `}`),
		"no_JSON": json.RawMessage(`"` + strings.Repeat("{", size) + `"`),
		"deep":    json.RawMessage(strings.Repeat("[", 5000) + strings.Repeat("]", 5000)),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := start(t, calling("look", `{}`)...)
			core, logs := observer.New(zap.DebugLevel)
			s.config.Logger = zap.New(core)
			s.node()
			s.starting([]string{"b1", "b2"}, func(int, func()) any { return answer })
			id := s.begin()
			s.AwaitTurn(id, "t1")
			s.wantResult(id, "no instance of plugin notes runs")
			refused := logs.FilterMessage("an instance does not take a session").All()
			if len(refused) == 0 {
				t.Error("log: got no line of the start")
			}
			for _, line := range logs.All() {
				if n := len(fmt.Sprint(line.ContextMap())); n > longestLog {
					t.Errorf("log: got a line %q of %d bytes, want at most %d", line.Message, n, longestLog)
				}
			}
			harness.VerifyHistory(t, s.Bus, id)
		})
	}
}
