package sandbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"
)

// Run runs one program in a process of its own. An error is never the program's: ctx has ended, the caller stopped the
// run, the request is invalid, or there is no process.
func Run(ctx context.Context, limits Limits, req Request, caller Caller) (Response, error) {
	limits = limits.withDefaults()
	if int64(len(req.Code)) > limits.Code {
		return Response{State: req.State, Error: fmt.Sprintf("the code is too long: %d bytes (limit %d); write a shorter program", len(req.Code), limits.Code)}, nil
	}
	if !utf8.ValidString(req.Code) {
		return Response{State: req.State, Error: "the code is not UTF-8"}, nil
	}
	account := limits.Memory.Account(req.Session, 0)
	defer account.Close()
	first, cancel := context.WithTimeout(ctx, memoryWait)
	defer cancel()
	switch err := account.Reserve(first, limits.MemoryBytes); {
	case ctx.Err() != nil:
		return Response{}, context.Cause(ctx)
	case err != nil:
		return Response{State: req.State, Error: limits.noMemory()}, nil
	}
	p, err := startProcess(ctx)
	switch {
	case err == nil:
		p.memory = account
		return p.run(ctx, limits, req, caller)
	case ctx.Err() != nil:
		return Response{}, context.Cause(ctx)
	}
	return Response{}, fmt.Errorf("start the process of a program: %w", err)
}

func (p *process) run(ctx context.Context, limits Limits, req Request, caller Caller) (Response, error) {
	defer p.wait()
	defer p.kill()
	defer context.AfterFunc(ctx, p.kill)()
	resp, out := Response{State: req.State, Steps: limits.Steps}, output{limit: limits.Output}
	ended := func(message string) (Response, error) {
		resp.Error = message
		resp.Output, resp.Truncated = out.text()
		return resp, nil
	}
	var expired atomic.Bool
	var say any = order{req, limits}
	for left := limits.Timeout; ; {
		clock := time.AfterFunc(left, func() { expired.Store(true); p.kill() })
		began := time.Now()
		m, err := p.exchange(say)
		clock.Stop()
		left, say = left-time.Since(began), nil
		switch {
		case ctx.Err() != nil:
			return Response{}, context.Cause(ctx)
		case expired.Load() || left <= 0:
			return ended(limits.tooLong())
		case err != nil:
			return ended(limits.tooLarge())
		}
		switch m.Kind {
		case "print":
			out.write(m.Text)
		case "message":
			caller.Message(m.Text, m.Label)
		case "show":
			resp.Shown = append(resp.Shown, m.Shown)
		case "broken":
			return Response{}, errors.New(m.Text)
		case "end":
			m.End.Shown, m.End.Calls = resp.Shown, resp.Calls
			resp = m.End
			return ended(resp.Error)
		default:
			if m.Kind == "call" || m.Kind == "start" {
				resp.Calls += len(m.Calls)
			}
			// What a program waits for may itself be a program, so one that waits has nothing of the memory of all, and one that goes on
			// waits only for such as compute, each of which ends in its time. The process of one that waits keeps its pages all the
			// same: it takes no more of them, and its wall bounds them.
			p.memory.GiveBack()
			if say, err = answers(ctx, m, caller); err != nil {
				return Response{}, err
			}
			if err = p.memory.Reserve(ctx, limits.MemoryBytes); err != nil {
				return Response{}, cmp.Or(context.Cause(ctx), err)
			}
		}
	}
}

// answers makes the calls of a message at the same time. An error ends the run; failures of tools are answers.
func answers(ctx context.Context, m message, caller Caller) ([]answer, error) {
	list, errs := make([]answer, len(m.Calls)), make([]error, len(m.Calls))
	var calls sync.WaitGroup
	for i, c := range m.Calls { // one goroutine for each call, which ends with the call
		calls.Go(func() { list[i].Value, errs[i] = outside(ctx, m, c, caller) })
	}
	calls.Wait()
	for i, err := range errs {
		switch {
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case errors.Is(err, ErrStop):
			return nil, err
		case err != nil:
			list[i] = answer{Failed: true, Error: clean(cutText(err.Error(), 2000))}
		}
	}
	return list, nil
}

func outside(ctx context.Context, m message, c Call, caller Caller) (value []byte, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("internal error: %v", p)
		}
	}()
	switch m.Kind {
	case "call":
		return caller.Call(ctx, c)
	case "start":
		id, err := caller.Start(ctx, c)
		return []byte(id), err
	case "wait":
		return caller.Await(ctx, m.Text)
	}
	return caller.Attachments(ctx)
}
