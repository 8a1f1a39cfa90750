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
)

// route is an operation: what serves it and what the document says of it.
type route struct {
	name    string // operation id
	summary string
	method  string
	path    string
	needs   api.Right // empty: no token is needed
	held    bool      // it may stay open: a stream, or a request that waits
	long    bool      // it is held open for as long as its work takes, which is never cut off while its client waits
	query   []param
	repeats string // the parameter that may stand several times; empty: none
	header  []param
	request reflect.Type            // of the body; nil: none
	given   bool                    // the body is no JSON but the bytes themselves
	gives   bool                    // so is the answer
	answers map[int]reflect.Type    // by status; nil: no body
	events  map[string]reflect.Type // of a stream: data by event name
	lenient bool                    // a session that there is none of is as good as any
	refuses []int                   // statuses besides those that every such operation has
	handle  func(*call) (reply, error)
}

// param is a query parameter or a header.
type param struct {
	name   string
	schema object
	about  string
	needed bool
}

// reply is an answer.
type reply struct {
	status   int
	body     any                       // JSON; nil: none
	data     []byte                    // instead of JSON: bytes that no browser may show
	size     int                       // of the bytes, of which a HEAD has none
	release  func()                    // called when the bytes or the stream are out; nil: nothing is
	location string                    // of what was made
	stream   iter.Seq2[message, error] // nil: it is none
	outcome  bool                      // the stream's last message says how it came out, also where the server cuts it off
}

// call is a request to an operation.
type call struct {
	*http.Request // its context ends when the answer is due, or the server drains
	s             *Server
	w             http.ResponseWriter
	session       events.SessionID // in the path; empty where none is there
	caller        Caller           // zero where the operation needs none
	left          *rate.Limiter    // bytes that the caller may move
	patience      time.Duration    // how long the request would wait
	due           time.Time        // when it has waited for so long; zero where it does not wait
}

// body makes a handler of one that takes a JSON body.
func body[T any](f func(*call, T) (reply, error)) func(*call) (reply, error) {
	return func(c *call) (reply, error) {
		var in T
		if err := c.decode(&in); err != nil {
			return reply{}, err
		}
		return f(c, in)
	}
}

func of[T any]() reflect.Type { return reflect.TypeFor[T]() }

// changes reports whether the operation changes something.
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

// refusals are the statuses of problems, ascending.
func (r *route) refusals() []int {
	if r.needs == "" {
		return []int{http.StatusTooManyRequests}
	}
	list := append([]int{http.StatusUnauthorized, http.StatusForbidden, http.StatusTooManyRequests, http.StatusServiceUnavailable, http.StatusGatewayTimeout}, r.refuses...)
	if r.changes() {
		list = append(list, http.StatusConflict) // at least of a key that another request used
	}
	if len(r.pathParams()) > 0 || len(r.query) > 0 || r.request != nil || r.given {
		list = append(list, http.StatusBadRequest)
	}
	if r.request != nil || r.given {
		list = append(list, http.StatusRequestEntityTooLarge)
	}
	if len(r.pathParams()) > 0 && !r.lenient {
		list = append(list, http.StatusNotFound)
	}
	slices.Sort(list)
	return slices.Compact(list)
}
