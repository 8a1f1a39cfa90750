package projector

import (
	"slices"
	"strings"

	"github.com/lash-go/lash/events"
)

// Request identifies a commit whose request had an idempotency key. If two commits have the same key, the first one
// wins.
type Request struct {
	Key    string     `msgpack:"k,omitempty"` // empty if an earlier version recorded it, which appended the key to the cause
	Digest string     `msgpack:"d,omitempty"` // of the request; empty exactly if Key is
	Cause  string     `msgpack:"c,omitempty"` // ends with the key; set exactly if Key is empty
	Seq    events.Seq `msgpack:"q"`           // of the commit
}

// segmentRequests limits the requests with a key in the head, so that it stays small in a session whose requests add
// no nodes.
const segmentRequests = 256

// recentCauses is the number of latest requests that are compared with a new cause. Hosts without keys give many
// commits the same cause, and one entry is enough.
const recentCauses = 16

// recordRequest records the values that identify a repeated request.
func (s *State) recordRequest(c *events.Commit) {
	r := Request{Key: c.Key, Digest: c.Digest, Seq: s.Seq}
	list := s.body.requests
	if r.Key == "" {
		if r.Cause = olderCause(c); r.Cause == "" {
			return
		}
		recent := list[max(0, len(list)-recentCauses):]
		if slices.ContainsFunc(recent, func(q Request) bool { return q.Cause == r.Cause }) {
			return
		}
	}
	s.body.requests = append(list, r)
}

// olderConfigure precedes the key in the recorded cause of a configuration of an earlier version.
const olderConfigure = "configure "

// olderCause returns the cause of a commit of an earlier version whose request may have had a key. These versions
// appended the key to the cause; a configuration had it in its event. Without one the result is empty.
func olderCause(c *events.Commit) string {
	if c.Actor.Kind != events.ActorClient {
		return ""
	}
	for i := range c.Events {
		if p, ok := c.Events[i].Payload.(*events.SessionConfigured); ok && p.Key != "" {
			return olderConfigure + p.Key
		}
	}
	switch c.Cause {
	case "cancel inputs", "cancel task", "cancel tasks", "resolve at": // causes without a key
		return ""
	}
	if !strings.Contains(c.Cause, " ") {
		return ""
	}
	return c.Cause
}

// FindRequest finds the first request with an idempotency key. cause is the value that an earlier version recorded in
// place of the key: the operation's cause, a blank, and the key. It scans 100 000 requests in about a millisecond, so
// there is no index.
func (s *State) FindRequest(key, cause string) (Request, bool, error) {
	if err := s.complete(); err != nil {
		return Request{}, false, err
	}
	for list := range s.recorded {
		if r := findRequest(list.requests, key, cause); r != nil {
			return *r, true, nil
		}
	}
	return Request{}, false, nil
}

func findRequest(list []Request, key, cause string) *Request {
	for i := range list {
		if r := &list[i]; r.Key == key && key != "" || r.Key == "" && r.Cause == cause {
			return r
		}
	}
	return nil
}

// FindConfiguration is [State.FindRequest] for a change of the configuration.
func (s *State) FindConfiguration(key string) (Request, bool, error) {
	return s.FindRequest(key, olderConfigure+key)
}

// findFirst returns the first element for which is holds, or nil.
func findFirst[T any](list []T, is func(*T) bool) *T {
	for i := range list {
		if is(&list[i]) {
			return &list[i]
		}
	}
	return nil
}
