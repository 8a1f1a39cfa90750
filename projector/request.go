package projector

import "github.com/lash-go/lash/events"

// Request identifies a commit whose request had an idempotency key. If two commits have the same key, the first one
// wins.
type Request struct {
	Key    string     `msgpack:"k"`
	Digest string     `msgpack:"d"` // of the request
	Seq    events.Seq `msgpack:"q"` // of the commit
}

// segmentRequests limits the requests with a key in the head, so that it stays small in a session whose requests add
// no nodes.
const segmentRequests = 256

// recordRequest records the values that identify a repeated request.
func (s *State) recordRequest(c *events.Commit) {
	if c.Key != "" {
		s.body.requests = append(s.body.requests, Request{Key: c.Key, Digest: c.Digest, Seq: s.Seq})
	}
}

// FindRequest finds the first request with an idempotency key. It scans 100 000 requests in about a millisecond, so there is no index.
func (s *State) FindRequest(key string) (Request, bool, error) {
	if err := s.complete(); err != nil {
		return Request{}, false, err
	}
	for list := range s.recorded {
		if r := findFirst(list.requests, func(r *Request) bool { return r.Key == key }); r != nil {
			return *r, true, nil
		}
	}
	return Request{}, false, nil
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
