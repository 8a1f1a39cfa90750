package external

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/session/plugin/wire"
)

// storedSize is that of a body with three pieces.
const storedSize = 2*wire.MaxBodyPiece + 7

// wantStored is the attachment of the result of a call that stored a body, which the history records once.
func (s *setting) wantStored(id events.SessionID) {
	s.T.Helper()
	s.wantResult(id, "read true")
	want := events.BlobRef{Digest: fmt.Sprintf("%x", sha256.Sum256([]byte(largeText(storedSize)))), Size: storedSize}
	list := harness.Find[*events.ToolReturned](s.System, id)[0].Results[0].Attachments
	runtest.DeepEqual(s.T, "attachments", list, []events.Part{{Kind: events.PartAttachment, MediaType: "image/png", Blob: want}})
	stored := harness.Find[*events.BodyStored](s.System, id)
	runtest.DeepEqual(s.T, "stored", stored, []*events.BodyStored{{Blob: want, By: wire.CallerOf("notes")}})
}

func storesBody(t *testing.T, on place) {
	s := on.start(t, calling("act", fmt.Sprintf(`{"do":"body","n":%d}`, storedSize))...)
	s.allowing("storeBlob", "getBlob")
	s.node()
	s.program("i1")
	id := s.begin()
	s.AwaitTurn(id, "t1")
	s.wantStored(id)
}

// storesBodyAgain kills an instance between the storing and the result. The call runs again elsewhere.
func storesBodyAgain(t *testing.T, on place) {
	s := on.start(t, calling("ask", fmt.Sprintf(`{"do":"body","n":%d,"hold":true}`, storedSize))...)
	s.allowing("storeBlob", "getBlob")
	s.node()
	programs := map[string]*process{"i1": s.program("i1"), "i2": s.program("i2")}
	id := s.begin()
	lines := s.logged("stored", 1)
	for name, p := range programs {
		if slices.ContainsFunc(lines, func(line string) bool { return strings.Contains(line, " "+name+" ") }) {
			p.kill()
		}
	}
	s.logged("stored", 2)
	s.release()
	s.AwaitTurn(id, "t1")
	runtest.DeepEqual(t, "runs", s.began(), 2)
	s.wantStored(id)
}

// foreignBody reads, and names as an attachment, a body that only another session has.
func foreignBody(t *testing.T, on place) {
	const body = "only theirs"
	digest := fmt.Sprintf("%x", sha256.Sum256([]byte(body)))
	s := on.start(t,
		harness.Reply(harness.Call("k1", "act", fmt.Sprintf(`{"do":"read","path":%q}`, digest)), harness.Call("k2", "act", fmt.Sprintf(`{"do":"name","path":%q,"n":%d}`, digest, len(body)))),
		harness.Reply(harness.Text("done")))
	s.allowing("storeBlob", "getBlob")
	_, err := s.StoreBlob(s.Ctx, s.Open(api.CreateRequest{}), []byte(body))
	runtest.WantError(t, "store", err, nil)
	s.node()
	s.program("i1")
	id := s.begin()
	s.AwaitTurn(id, "t1")
	results := s.ResultsByPosition(id)
	runtest.DeepEqual(t, "outcome of reading it", results[0].Outcome, events.OutcomeFailure)
	runtest.DeepEqual(t, "outcome of naming it", []string{string(results[1].Outcome), results[1].Code}, []string{string(events.OutcomeFailure), plugin.CodeUnknownBody})
	_, err = s.FindBlobs(s.Ctx, id, digest)
	runtest.WantError(t, "of the session", err, api.ErrUnknownBlob)
}

func bodyNotAllowed(t *testing.T, on place) {
	s := on.start(t, calling("act", `{"do":"body","n":7}`)...)
	s.allowing("getBlob")
	s.node()
	s.program("i1")
	id := s.begin()
	s.AwaitTurn(id, "t1")
	s.wantResult(id, "status 403")
	runtest.DeepEqual(t, "stored", len(harness.Find[*events.BodyStored](s.System, id)), 0)
}
