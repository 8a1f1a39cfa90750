package recording

import "github.com/lash-go/lash/events"

// recordedCall is a tool call of a reply.
type recordedCall struct {
	reply    int // index in Entries
	index    int // among the reply's tool_call parts
	id       events.CallID
	tool     string
	answered bool
}

// openCalls finds the call of a result: in the latest reply that has an unanswered call of the key, the first such
// call. A call may be in two openCalls; each skips the calls that the other answered.
type openCalls[K comparable] map[K][]replyCalls

// replyCalls are the calls of one reply that share a key, in order.
type replyCalls struct {
	reply int
	calls []*recordedCall
}

// put adds c. Replies are added in order.
func (o openCalls[K]) put(key K, c *recordedCall) {
	stack := o[key]
	if n := len(stack); n > 0 && stack[n-1].reply == c.reply {
		stack[n-1].calls = append(stack[n-1].calls, c)
		return
	}
	o[key] = append(stack, replyCalls{reply: c.reply, calls: []*recordedCall{c}})
}

// take returns the call of the next result and marks it answered; nil if there is none.
func (o openCalls[K]) take(key K) *recordedCall {
	stack := o[key]
	defer func() { o[key] = stack }()
	for len(stack) > 0 {
		top := &stack[len(stack)-1]
		for len(top.calls) > 0 {
			c := top.calls[0]
			top.calls = top.calls[1:]
			if !c.answered {
				c.answered = true
				return c
			}
		}
		stack = stack[:len(stack)-1]
	}
	return nil
}
