package system

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/client"
	"github.com/lash-go/lash/session/httpapi"
)

// personTexts are the requests with a text of a person, by what the text is: through a service, and the path and body of the same over HTTP.
var personTexts = map[string]struct {
	field string
	most  int
	send  func(b *harness.System, s api.Service, id events.SessionID, text string) error
	path  string
	body  string // with %q for the text
}{
	"cancel": {"reason", events.MaxReasonBytes, func(b *harness.System, s api.Service, id events.SessionID, text string) error {
		_, _, err := s.Cancel(b.Ctx, id, "none", api.CancelRequest{Reason: text})
		return err
	}, "/turns/none/cancel", `{"reason":%q}`},
	"cancel's origin": {"origin", events.MaxReasonBytes, func(b *harness.System, s api.Service, id events.SessionID, text string) error {
		_, _, err := s.Cancel(b.Ctx, id, "none", api.CancelRequest{Origin: text})
		return err
	}, "", ""},
	"approval": {"reason", events.MaxReasonBytes, func(b *harness.System, s api.Service, id events.SessionID, text string) error {
		return s.Approve(b.Ctx, id, events.ToolApprovalGiven{Effect: "none/0/0", Reason: text})
	}, "/approvals", `{"call":"none/0/0","granted":false,"reason":%q}`},
	"approval of a nested call": {"reason", events.MaxReasonBytes, func(b *harness.System, s api.Service, id events.SessionID, text string) error {
		return s.Approve(b.Ctx, id, events.ToolApprovalGiven{Effect: "none/0/0/1", Reason: text})
	}, "/approvals", `{"call":"none/0/0/1","granted":false,"reason":%q}`},
	"answer": {"reason", events.MaxAnswerBytes, func(b *harness.System, s api.Service, id events.SessionID, text string) error {
		return s.Approve(b.Ctx, id, events.ToolApprovalGiven{Effect: events.QuestionEffect("none/0/0", "1"), Granted: true, Reason: text})
	}, "/approvals", `{"call":"none/0/0/ask:1","granted":true,"reason":%q}`},
	"frame": {"reason", events.MaxReasonBytes, func(b *harness.System, s api.Service, id events.SessionID, text string) error {
		_, err := s.OpenFrame(b.Ctx, id, api.FrameRequest{Frame: "f", Reason: text})
		return err
	}, "/frames", `{"id":"f","reason":%q}`},
	"task": {"reason", events.MaxReasonBytes, func(b *harness.System, s api.Service, id events.SessionID, text string) error {
		_, err := s.RequestCancelTask(b.Ctx, id, "none", text)
		return err
	}, "/tasks/none/stop", `{"reason":%q}`},
	"close": {"reason", events.MaxReasonBytes, func(b *harness.System, s api.Service, id events.SessionID, text string) error {
		return s.CloseSession(b.Ctx, id, text)
	}, "", ""},
}

// TestTextsOfPeople sends texts up to their limit and one byte more, with every API.
func TestTextsOfPeople(t *testing.T) {
	t.Parallel()
	b := harness.StartIdle(t)
	c, err := client.New(client.Config{Bus: bustest.Open(t, b.Server)})
	runtest.WantError(t, "client", err, nil)
	b.StartNodeOn(b.Bus)
	d := b.ServeHTTP(httpapi.Config{})
	for name, text := range personTexts {
		fits, large := strings.Repeat("x", text.most), strings.Repeat("x", text.most+1)
		for via, s := range map[string]api.Service{"go": b.Host, "nats": c} {
			id := b.Open(api.CreateRequest{})
			err := text.send(b, s, id, large)
			if refused, ok := errors.AsType[*events.FieldError](err); !errors.Is(err, events.ErrTooLarge) || !ok || refused.Field != text.field {
				t.Errorf("%s over %s: got %v, want field %s refused", name, via, err, text.field)
			}
			if err := text.send(b, s, id, fits); errors.Is(err, events.ErrTooLarge) {
				t.Errorf("%s over %s, at the limit: got %v", name, via, err)
			}
		}
		if text.path == "" {
			continue
		}
		path := "/v1/sessions/" + string(b.Open(api.CreateRequest{})) + text.path
		got := d.Send("admin", http.MethodPost, path, fmt.Sprintf(text.body, large))
		if got.Status != http.StatusRequestEntityTooLarge || !strings.Contains(string(got.Body), fmt.Sprintf("%q:%q", "field", text.field)) {
			t.Errorf("%s over HTTP: got %d %s, want field %s refused", name, got.Status, got.Body, text.field)
		}
		if got := d.Send("admin", http.MethodPost, path, fmt.Sprintf(text.body, fits)); got.Status == http.StatusRequestEntityTooLarge || got.Status == http.StatusBadRequest {
			t.Errorf("%s over HTTP, at the limit: got %d %s", name, got.Status, got.Body)
		}
	}
}
