package bus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"

	"github.com/lash-go/lash/events"
)

// Readers are users of another account, who have no access to the server's API and whose reads a process answers.
type Readers string

// Values of [Readers]. Each is a token of the subject where their requests arrive.
const (
	Clients  Readers = "read"  // nodes answer them
	Auditors Readers = "audit" // processes answer them that write nothing and are no nodes
)

const (
	listsAtOnce = 2           // of one process: requests whose cost grows with the number of sessions
	refusedLog  = time.Minute // at most one line for each user in this time
	loggedUsers = 1024        // with the time of their last line
	maxAnswer   = maxMessage - 64<<10
)

// readServer answers reads with requests to the server's API, of which it has a few at once.
type readServer struct {
	b            *Bus
	of           Readers
	reads, lists *admission
	log          *zap.Logger
	logged       *lru.Cache[string, time.Time] // by user

	mu     sync.Mutex
	ctx    context.Context //nolint:containedctx // of the requests, ends with stop
	cancel context.CancelFunc
	work   sync.WaitGroup
}

// ServeReads answers reads until stop, which cuts off those that run. At most atOnce requests to the server are under way for them, and
// a user whose requests wait beyond that is refused. Any number of processes may answer: each request goes to one. A refused user
// is named in the log. It needs what a bus of [OpenReader] needs.
func (b *Bus) ServeReads(of Readers, atOnce int) (stop func(), err error) {
	if of != Clients && of != Auditors {
		return nil, fmt.Errorf("serve reads: %w", &events.FieldError{Field: "readers", Reason: fmt.Sprintf("are %.40q, want %s or %s", of, Clients, Auditors), Err: events.ErrInvalid})
	}
	logged, _ := lru.New[string, time.Time](loggedUsers) // the size is valid
	s := &readServer{b: b, of: of, reads: newAdmission(max(atOnce, 1)), lists: newAdmission(listsAtOnce), log: b.log.Named("reads"), logged: logged}
	s.ctx, s.cancel = context.WithCancel(context.Background()) // ends with stop
	sub, err := b.nc.QueueSubscribe(b.names.reads(of)+">", b.names.service(), s.received)
	if err != nil {
		s.cancel()
		return nil, fmt.Errorf("serve reads: %w", mapError(err))
	}
	once, cancel := b.timeout(s.ctx)
	defer cancel()
	_ = b.nc.FlushWithContext(once) // so that requests arrive from now on
	return func() {
		_ = sub.Unsubscribe()
		s.end()
		s.work.Wait()
	}, nil
}

func (s *readServer) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cancel()
}

// received starts a request. It does not block, as later ones would wait behind it.
func (s *readServer) received(m *nats.Msg) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ctx.Err() == nil {
		s.work.Go(func() { s.answer(m) })
	}
}

func (s *readServer) answer(m *nats.Msg) {
	user, err := callerOf(m.Reply, m.Header, m.Size()-len(m.Subject)-len(m.Reply)-len(m.Data))
	if err != nil || !isReply(m.Reply) {
		return
	}
	read, err := s.b.names.parseRead(s.of, m.Subject[len(s.b.names.reads(s.of)):], m.Data)
	if err != nil {
		s.refuse(m.Reply, user, err)
		return
	}
	admission := s.reads
	if read.list {
		admission = s.lists
	}
	release, err := admission.acquire(s.ctx, s.ctx.Done(), user, len(m.Data))
	if err != nil {
		s.refuse(m.Reply, user, err)
		return
	}
	defer release()
	if err := s.relay(m.Reply, read); err != nil {
		s.refuse(m.Reply, user, err)
	}
}

// relay makes a request to the server, and passes its answers on. A user who misses one asks again. It returns no error where the user
// has a part of the answer: an error between messages has no form.
func (s *readServer) relay(reply string, read readRequest) error {
	l := s.b.linkOf(true)
	sub, err := l.nc.SubscribeSync(l.nc.NewRespInbox())
	if err != nil {
		return mapError(err)
	}
	defer func() { _ = sub.Unsubscribe() }()
	once, cancel := s.b.timeout(s.ctx)
	defer cancel()
	if err := l.nc.PublishRequest(read.subject, sub.Subject, read.data); err != nil {
		return mapError(err)
	}
	for n := 0; ; n++ {
		got, err := sub.NextMsgWithContext(once)
		if err == nil && read.list {
			got.Data, err = firstSubjects(got.Data, maxAnswer)
		}
		if err == nil {
			err = l.nc.PublishMsg(&nats.Msg{Subject: reply, Header: got.Header, Data: got.Data})
		}
		switch {
		case err != nil && n > 0:
			return nil
		case err != nil:
			return mapError(err)
		case !read.batch || got.Header.Get("Status") != "":
			return nil
		}
	}
}

// refuse tells a user that a request was not done. Where it may be done later, the user gets what a server without a leader answers.
func (s *readServer) refuse(reply, user string, err error) {
	if isUnknown(err) || errors.Is(err, errStopped) {
		s.send(reply, nats.Header{"Status": {"503"}}, nil)
		return
	}
	if at, ok := s.logged.Get(user); !ok || time.Since(at) > refusedLog {
		s.logged.Add(user, time.Now())
		s.log.Warn("a read is refused", zap.String("user", user), zap.Error(err))
	}
	if errors.Is(err, errBusy) {
		s.send(reply, nats.Header{"Status": {"503"}}, nil)
		return
	}
	data, _ := json.Marshal(map[string]any{"error": jetstream.APIError{Code: 400, ErrorCode: jetstream.JSErrCodeBadRequest, Description: err.Error()}}) // which can be encoded
	s.send(reply, nats.Header{"Status": {"400"}, "Description": {err.Error()}}, data)
}

func (s *readServer) send(reply string, h nats.Header, data []byte) {
	_ = s.b.nc.PublishMsg(&nats.Msg{Subject: reply, Header: h, Data: data}) // a user who misses it asks again
}

// firstSubjects leaves as many subjects in a list of a stream's as fit into a message. A server sends more than clients can. The reader asks
// for the next ones, from the number that it has on: servers sort them.
func firstSubjects(answer []byte, limit int) ([]byte, error) {
	if len(answer) <= limit {
		return answer, nil
	}
	var whole, state map[string]json.RawMessage
	var subjects map[string]uint64
	err := json.Unmarshal(answer, &whole)
	if err == nil {
		err = json.Unmarshal(whole["state"], &state)
	}
	if err == nil {
		err = json.Unmarshal(state["subjects"], &subjects)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", events.ErrMalformed, err)
	}
	names := make([]string, 0, len(subjects))
	for name := range subjects {
		names = append(names, name)
	}
	slices.Sort(names)
	size := len(answer) - len(state["subjects"])
	for i, name := range names {
		if size += len(name) + len(`"":18446744073709551615,`); size > limit {
			for _, rest := range names[i:] {
				delete(subjects, rest)
			}
			break
		}
	}
	if state["subjects"], err = json.Marshal(subjects); err == nil {
		if whole["state"], err = json.Marshal(state); err == nil {
			return json.Marshal(whole)
		}
	}
	return nil, err
}
