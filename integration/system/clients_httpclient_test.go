package system

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/integration/internal/httpbody"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/operation"
	"github.com/lash-go/lash/session/plugin"
)

// reads is the part of the service that only reads, and waits for commits.
type reads interface {
	State(ctx context.Context, id events.SessionID) (*projector.State, error)
	StateAt(ctx context.Context, id events.SessionID, seq events.Seq) (*projector.State, error)
	View(ctx context.Context, id events.SessionID) (projector.ReadView, error)
	ViewAt(ctx context.Context, id events.SessionID, seq events.Seq) (projector.ReadView, error)
	Await(ctx context.Context, id events.SessionID, turn events.TurnID) (api.TurnResult, error)
	FindBlobs(ctx context.Context, id events.SessionID, digests ...string) ([]events.BlobRef, error)
}

// httpService is the session service over HTTP. States, views and commits, which JSON does not have as the host's
// types, are read from the log.
type httpService struct {
	operation.Requests
	reads
	log *session.Host
	web *webTransport
}

// overWeb is the service at a URL, with a token.
func overWeb(b *bus.Bus, url, token string) (*httpService, error) {
	w := &webTransport{url: url, token: token, client: &http.Client{Transport: &http.Transport{}}}
	s := &httpService{web: w, Requests: operation.Requests{Transport: w}}
	log, err := session.New(session.Config{Bus: b, Plugins: session.NoPlugins()})
	s.log, s.reads = log, log
	return s, err
}

func (s *httpService) Configure(ctx context.Context, id events.SessionID, req api.ConfigureRequest) error {
	now, err := s.State(ctx, id)
	if err != nil {
		return err
	}
	if first, ok, _ := now.FindRequest(req.IdempotencyKey); ok { // of a repeat: the content of the first request
		if now, err = s.StateAt(ctx, id, first.Seq-1); err != nil {
			return err
		}
	}
	c := req.Change(now.Config)
	_, err = s.web.do(ctx, &operation.Configure.Row, id, req.IdempotencyKey, sent{body: httpbody.ConfigChange{
		Provider: &c.Provider, Model: &c.Model, Effort: &c.Effort, MaxOutputTokens: &c.MaxOutputTokens, ContextWindow: &c.ContextWindow,
		MaxIterations: &c.MaxIterations, Protocol: &c.Protocol, Environment: &c.Environment,
	}})
	return err
}

// CancelInputs takes them one by one, as over HTTP.
func (s *httpService) CancelInputs(ctx context.Context, id events.SessionID, inputs ...events.InputID) (list []api.InputReceipt, err error) {
	for _, in := range inputs {
		one, err := s.Requests.CancelInputs(ctx, id, in)
		if err != nil {
			return list, err
		}
		list = append(list, one...)
	}
	return list, nil
}

// Complete has a source, which JSON may leave out.
func (s *httpService) Complete(ctx context.Context, id events.SessionID, req plugin.CompletionRequest, source string) (plugin.Completion, error) {
	if source == "" {
		return plugin.Completion{}, &events.FieldError{Field: "source", Reason: "is empty", Err: events.ErrInvalid}
	}
	return s.Requests.Complete(ctx, id, req, source)
}

func (s *httpService) Run(ctx context.Context, id events.SessionID, req api.TurnRequest) (api.TurnResult, error) {
	a, err := s.SubmitTurn(ctx, id, req)
	if err != nil {
		return api.TurnResult{}, err
	}
	return s.Await(ctx, id, a.Turn)
}

func (s *httpService) StartTurnStream(ctx context.Context, id events.SessionID, req api.TurnRequest) (events.TurnID, iter.Seq2[api.SessionEvent, error], error) {
	a, err := s.SubmitTurn(ctx, id, req)
	if err != nil {
		return "", nil, err
	}
	list, err := s.log.WatchTurn(ctx, id, a.Turn)
	return a.Turn, list, err
}

func (s *httpService) Observe(ctx context.Context, id events.SessionID, cursor events.Seq) iter.Seq2[api.Observed, error] {
	return s.log.Observe(ctx, id, cursor)
}

func (s *httpService) AssembledTurn(ctx context.Context, id events.SessionID, turn events.TurnID) (a api.AssembledTurn, err error) {
	return fetched(ctx, s.web, operation.Turn, id, sent{vars: []string{"{turn}", string(turn)}}, func(a api.AssembledTurn) api.AssembledTurn { return a })
}

func (s *httpService) Approvals(ctx context.Context, id events.SessionID) ([]api.PendingApproval, error) {
	return fetched(ctx, s.web, &operation.Approvals.Row, id, sent{}, func(got httpbody.Approvals) (list []api.PendingApproval) {
		for _, a := range got.Approvals {
			asked := events.ToolApprovalAsked{Effect: a.Call, Tool: a.Tool, Args: a.Args, Plugin: a.Plugin, Question: a.Question}
			list = append(list, api.PendingApproval{Session: a.Session, Approval: projector.Approval{ToolApprovalAsked: asked}})
		}
		return list
	})
}

func (s *httpService) Task(ctx context.Context, id events.SessionID, name events.TaskID) (projector.Task, error) {
	return fetched(ctx, s.web, &operation.Task.Row, id, sent{vars: []string{"{task}", string(name)}}, taskFrom)
}

func (s *httpService) Tasks(ctx context.Context, id events.SessionID) ([]projector.Task, error) {
	return fetched(ctx, s.web, &operation.Tasks.Row, id, sent{}, func(got httpbody.Tasks) (list []projector.Task) {
		for _, t := range got.Tasks {
			list = append(list, taskFrom(t))
		}
		return list
	})
}

func (s *httpService) ToolOutput(ctx context.Context, id events.SessionID, call events.EffectID) (string, error) {
	return fetched(ctx, s.web, &operation.ToolOutput.Row, id, sent{query: "?call=" + url.QueryEscape(string(call))}, func(got httpbody.CallOutput) string { return got.Output })
}

func (s *httpService) ReadBlob(ctx context.Context, id events.SessionID, digest string) ([]byte, error) {
	return s.web.do(ctx, operation.ReadBlob, id, "", sent{vars: []string{"{digest}", digest}})
}

func (s *httpService) TakeMonitorUpdates(ctx context.Context, id events.SessionID) (api.MonitorUpdates, error) {
	return fetched(ctx, s.web, &operation.TakeMonitorUpdates.Row, id, sent{}, func(got httpbody.MonitorUpdates) api.MonitorUpdates {
		u := api.MonitorUpdates{Revision: got.Revision, Active: got.Active}
		for _, e := range got.Updates {
			u.Events = append(u.Events, api.MonitorEvent{Sequence: e.Sequence, Monitor: e.Monitor, Message: e.Message, Stderr: e.Stderr, Input: e.Input})
		}
		return u
	})
}

// sent is a request as HTTP has it.
type sent struct {
	vars  []string // names and values in the path
	query string
	body  any    // JSON, or bytes as they are; nil: none
	key   string // in place of the request's own
	named bool   // the body has an id, which is the key
	id    string // the host's name of the field "id" of the body; empty: the same
}

// webTransport carries operations over HTTP.
type webTransport struct {
	url, token string
	client     *http.Client
}

// do sends a request and reads its response.
func (w *webTransport) do(ctx context.Context, r *operation.Row, id events.SessionID, key string, s sent) ([]byte, error) {
	got, err := w.send(ctx, r, id, key, s)
	if err != nil {
		return nil, err
	}
	defer func() { _ = got.Body.Close() }()
	body, err := io.ReadAll(got.Body)
	if err != nil {
		return nil, err
	}
	if seq, err := strconv.ParseUint(got.Header.Get("Lash-Seq"), 10, 64); err == nil {
		api.RecordSeq(ctx, id, events.Seq(seq))
	}
	if got.StatusCode < 400 {
		return body, nil
	}
	return nil, s.problem(body)
}

// send sends a request, and returns when its response begins.
func (w *webTransport) send(ctx context.Context, r *operation.Row, id events.SessionID, key string, s sent) (*http.Response, error) {
	data, raw := s.body.([]byte)
	if !raw && s.body != nil {
		var err error
		if data, err = json.Marshal(s.body); err != nil { // of JSON in it that is none
			return nil, &events.FieldError{Field: "body", Reason: err.Error(), Err: events.ErrInvalid}
		}
	}
	method, path := r.HTTP()
	path = strings.NewReplacer(append([]string{"{session}", string(id)}, s.vars...)...).Replace(path)
	req, err := http.NewRequestWithContext(ctx, method, w.url+path+s.query, bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer "+w.token)
	if key = cmp.Or(s.key, key); key != "" && !s.named {
		req.Header.Set("Idempotency-Key", key)
	}
	return w.client.Do(req)
}

// problem is the error of a problem.
func (s *sent) problem(body []byte) error {
	var p struct {
		Code, Detail string
		Details      map[string]string
	}
	if err := json.Unmarshal(body, &p); err != nil {
		return fmt.Errorf("%s: %w", body, err)
	}
	if p.Details["field"] == "id" {
		p.Details["field"] = cmp.Or(s.id, "id")
	}
	if p.Code == "invalid_body" || p.Code == "invalid_parameter" {
		return &events.FieldError{Field: strings.TrimSuffix(p.Details["field"], "_ms"), Reason: p.Details["reason"], Err: events.ErrInvalid}
	}
	return api.DecodeError(api.ErrorBody{Code: p.Code, Message: p.Detail, Details: p.Details})
}

// completion requests a completion as a stream, and returns the JSON of its result.
func (w *webTransport) completion(ctx context.Context, id events.SessionID, key string, s sent, stream func(plugin.CompletionDelta)) ([]byte, error) {
	got, err := w.send(ctx, operation.StreamCompletion, id, key, s)
	if err != nil {
		return nil, err
	}
	defer func() { _ = got.Body.Close() }()
	if got.StatusCode >= 400 {
		body, err := io.ReadAll(got.Body)
		return nil, cmp.Or(err, s.problem(body))
	}
	for lines := harness.ScanMessages(got.Body); ; {
		m, err := harness.NextMessage(lines)
		switch {
		case err != nil:
			return nil, err
		case m.Name == "result":
			return []byte(m.Data), nil
		case m.Name == "problem":
			return nil, s.problem([]byte(m.Data))
		}
		var d httpbody.CompletionDelta
		if err := json.Unmarshal([]byte(m.Data), &d); err != nil {
			return nil, err
		}
		stream(plugin.CompletionDelta(d))
	}
}

// fetched is the response to a request, as the host's type.
func fetched[R, Out any](ctx context.Context, w *webTransport, r *operation.Row, id events.SessionID, s sent, answer func(R) Out) (out Out, err error) {
	return fetchedAs(ctx, w, r, id, "", s, answer)
}

func fetchedAs[R, Out any](ctx context.Context, w *webTransport, r *operation.Row, id events.SessionID, key string, s sent, answer func(R) Out) (out Out, err error) {
	var data []byte
	if stream := operation.StreamOf(ctx); stream != nil && r == &operation.Complete.Row {
		data, err = w.completion(ctx, id, key, s, stream)
	} else {
		data, err = w.do(ctx, r, id, key, s)
	}
	if err != nil {
		return out, err
	}
	var got R
	if len(data) > 0 {
		err = json.Unmarshal(data, &got)
	}
	return answer(got), err
}

func (w *webTransport) Send(ctx context.Context, r *operation.Row, id events.SessionID, key string, in, out any) error {
	if over := webRows()[r]; over != nil {
		return over(ctx, w, id, key, in, out)
	}
	s := sent{}
	if _, bodiless := in.(*operation.None); !bodiless {
		s.body = in
	}
	data, err := w.do(ctx, r, id, key, s)
	if err != nil || len(data) == 0 {
		return err
	}
	return json.Unmarshal(data, out)
}

type webRow func(ctx context.Context, w *webTransport, id events.SessionID, key string, in, out any) error

// over is how a row's request is encoded and its response decoded.
func over[In, Out, R any](op *operation.Op[In, Out], request func(In) sent, answer func(R) Out) webRow {
	return overAs(&op.Row, request, answer)
}

func overAs[In, Out, R any](r *operation.Row, request func(In) sent, answer func(R) Out) webRow {
	return func(ctx context.Context, w *webTransport, id events.SessionID, key string, in, out any) (err error) {
		*out.(*Out), err = fetchedAs(ctx, w, r, id, key, request(*in.(*In)), answer)
		return err
	}
}

func bare(operation.None) sent { return sent{} }

func silence(struct{}) operation.None { return operation.None{} }

func body[In, B any](f func(In) B) func(In) sent { return bodyOf("", f) }

func bodyOf[In, B any](id string, f func(In) B) func(In) sent {
	return func(in In) sent { return sent{body: f(in), id: id} }
}

func wasOpened(o httpbody.Opened) bool { return o.Opened }

func newGeneration(g httpbody.Generation) int64 { return g.Generation }

func inPath[In ~string](name string) func(In) sent {
	return func(in In) sent { return sent{vars: []string{name, string(in)}} }
}
