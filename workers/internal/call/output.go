package call

import (
	"cmp"
	"encoding/json"
	"sync"
	"time"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/session/plugin/output"
	"github.com/lash-go/lash/session/plugin/wire"
)

// printer publishes what one attempt of a call prints to the observers of the session. It is not recorded.
type printer struct {
	d       *dispatch
	attempt int64

	mu    sync.Mutex
	pacer *output.Pacer // nil before the first text
	began time.Time     // of the pacer
	done  bool
}

// print is the [plugin.OutputFunc] of the attempt.
func (p *printer) print(stream string, offset int64, text string) {
	stream = cmp.Or(stream, plugin.StreamStdout)
	if events.CheckToken("stream", stream) != nil {
		stream = plugin.StreamLog
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.done {
		return
	}
	if p.pacer == nil {
		p.pacer = p.start()
	}
	if offset < 0 {
		p.pacer.Add(stream, text)
	} else if !p.pacer.AddAt(stream, offset, text) && time.Since(p.began) >= time.Second { // of another run, of which a call has few
		p.pacer.Close()
		p.pacer = p.start()
		p.pacer.AddAt(stream, offset, text)
	}
}

// start begins a run of the tool. The time orders the runs of a call, also those on other nodes.
func (p *printer) start() *output.Pacer {
	p.began = time.Now()
	d := api.Delta{Turn: p.d.at.turn, Call: p.d.env.Bus.Now().UnixNano(), Attempt: p.attempt}
	if t := p.d.at.state.Turn(); t != nil {
		d.Iteration = t.Iteration
	}
	return output.New(func(o wire.Output) {
		d.N, d.Output = o.Seq, api.ToolOutput{Call: p.d.call.Effect, Stream: o.Stream, Offset: o.Offset, Text: o.Text}
		if data, err := events.EncodePayload(&d); err == nil {
			_ = p.d.env.Bus.PublishOutput(p.d.at.session, data) // a lost output is a gap
		}
	})
}

// close publishes the rest, and nothing later.
func (p *printer) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.done = true
	if p.pacer != nil {
		p.pacer.Close()
	}
}

// emitted records the events that a result shows to the hosts, in the commit of the result.
func (d *dispatch) emitted(r *plugin.Result, out events.ToolResult) events.ToolResult {
	if len(r.Emit) == 0 || d.at.state.Turn() == nil {
		return out
	}
	source := d.call.Tool
	if tool, ok := d.catalog.Find(d.call.Tool); ok {
		source = cmp.Or(tool.Source, source)
	}
	body, err := json.Marshal(r.Emit)
	if err != nil {
		return replaced(out, Failed(0, plugin.ClassInternal, plugin.CodeTaskFailed, err))
	}
	shown := []events.Decision{{Plugin: source, Kind: events.DirectiveEmitEvents, Body: body, Call: d.call.Index}}
	ran := &events.HookRan{Point: events.PointAfterTool, Iteration: d.at.state.Turn().Iteration, Decisions: shown}
	if err := tooLarge(ran); err != nil {
		return replaced(out, Failed(0, plugin.ClassResourceLimit, plugin.CodeTaskFailed, err))
	}
	d.extra = append(d.extra, ran)
	return out
}
