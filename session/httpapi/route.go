package httpapi

import (
	"iter"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"time"

	"golang.org/x/time/rate"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/memory"
)

// route is an operation over HTTP: its handler and its description in the document.
type route struct {
	name           string // operation id
	summary        string
	method         string
	path           string
	needs          api.Right // empty: no authentication
	mayWait        bool      // a request may wait for the end of a turn
	long           bool      // it stays open for the duration of its work, without a timeout while the client waits
	query          []param
	repeatable     []string // the parameters that may be repeated
	header         []param
	request        reflect.Type            // of the body; nil: none
	rawRequest     bool                    // the request body is bytes, and not JSON
	rawResponse    bool                    // the response body is bytes
	responses      map[int]reflect.Type    // by status; nil: no body
	events         map[string]reflect.Type // of a stream: data by event name
	unknownAllowed bool                    // an unknown session is no error
	extraErrors    []int                   // statuses in addition to those of every operation
	handle         func(*httpRequest) (reply, error)

	// Of a route that an operation handles.
	in, out reflect.Type // forms of its types; nil: those types
	made    string       // collection in which it creates a resource
}

// param is a query parameter or a header.
type param struct {
	name        string
	schema      object
	description string
	required    bool
}

// reply is a successful response.
type reply struct {
	status   int
	body     any                       // JSON; nil: none
	data     []byte                    // bytes instead of JSON, which a browser must not render
	size     int                       // number of bytes, also for HEAD
	release  func()                    // called when the response is written; may be nil
	location string                    // path of the created resource
	stream   iter.Seq2[message, error] // nil: the reply is not a stream
	written  bool                      // the handler has written the response
	outcome  bool                      // the stream's last message has the outcome, also where the server cuts it off
}

// httpRequest is a request to an operation.
type httpRequest struct {
	*http.Request // its context ends at the deadline of the response, or when the server drains
	s             *Server
	route         *route
	w             http.ResponseWriter
	session       events.SessionID // from the path; empty: the path has none
	caller        Caller           // zero: the operation needs no caller
	limiter       *rate.Limiter    // the caller's remaining bytes
	maxWait       time.Duration    // how long the request waits
	waitEnd       time.Time        // end of the wait; zero: the request does not wait
	memory        *memory.Account
}

func typeOf[T any]() reflect.Type { return reflect.TypeFor[T]() }

// changes reports whether the operation can append to a session.
func (r *route) changes() bool { return r.needs != "" && r.needs != api.RightRead }

// pathParams are the names in a route's path, in order.
func (r *route) pathParams() []string {
	var names []string
	for part := range strings.SplitSeq(r.path, "/") {
		if name, ok := strings.CutPrefix(part, "{"); ok {
			names = append(names, strings.TrimSuffix(name, "}"))
		}
	}
	return names
}

// errorStatuses are the statuses of problems, ascending.
func (r *route) errorStatuses() []int {
	if r.needs == "" {
		return []int{http.StatusTooManyRequests}
	}
	list := append([]int{http.StatusBadRequest, http.StatusUnauthorized, http.StatusForbidden, http.StatusTooManyRequests, http.StatusServiceUnavailable, http.StatusGatewayTimeout}, r.extraErrors...)
	if r.changes() || strings.Contains(r.path, "{session}") {
		list = append(list, http.StatusConflict) // for a key that another request used, or a session that has lost commits
	}
	if r.changes() {
		list = append(list, http.StatusInsufficientStorage)
	}
	if r.request != nil || r.rawRequest {
		list = append(list, http.StatusRequestEntityTooLarge)
	}
	if len(r.pathParams()) > 0 && !r.unknownAllowed {
		list = append(list, http.StatusNotFound)
	}
	slices.Sort(list)
	return slices.Compact(list)
}
