package mcp

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/lash-go/lash/internal/runtest"
)

// fromLines reads a text as the output of a command: what the library gets, one message a line, and lines that are noise.
func fromLines(t *testing.T, a *answers, text string) (read, noise string, err error) {
	t.Helper()
	p := newPipe(a, nil)
	p.busy = func() bool { return false }
	p.noise = func(line string) { noise += line + "\n" }
	go p.listen(iotest.OneByteReader(strings.NewReader(text))) // ends with the text
	for {
		m, err := p.Read(t.Context())
		if err != nil {
			return read, noise, err
		}
		data, err := jsonrpc.EncodeMessage(m)
		runtest.NoError(t, err)
		read += string(data) + "\n"
	}
}

// fromEvents reads a text as a stream of events.
func fromEvents(t *testing.T, a *answers, text string) string {
	t.Helper()
	data, err := io.ReadAll(&eventStream{from: bufio.NewReader(iotest.OneByteReader(strings.NewReader(text))), answers: a})
	runtest.NoError(t, err)
	return string(data)
}

// TestWholeResults reads results that requests want whole, in each form in which a server sends them: they are as they were sent, and the
// library gets what is left. Other messages are as they were.
func TestWholeResults(t *testing.T) {
	t.Parallel()
	const others = `{"jsonrpc":"2.0","method":"notifications/message","params":{"structuredContent":9007199254740993}}`
	const left = `{"jsonrpc":"2.0","id":1,"result":{"content":[]}}`
	for _, content := range []string{`"structuredContent":{"id":9007199254740993}`, `"structuredContent":{"x":1e400}`, `"content":[{"type":"none"}]`, `"content":"text"`} {
		result := `{` + content + `,"_meta":{"a":1}}`
		message := `{"jsonrpc":"2.0","id":1,` + "\r\n" + `"result":` + result + `}`
		for name, read := range map[string]func(*answers) string{
			"line": func(a *answers) string {
				got, _, _ := fromLines(t, a, others+"\n[log] "+strings.ReplaceAll(message, "\r\n", " ")+"\n"+others+"\n")
				return got
			},
			"event": func(a *answers) string {
				got := fromEvents(t, a, "data: "+others+"\r\n\r\n: comment\r\ndata: "+strings.ReplaceAll(message, "\r\n", "\r\ndata: ")+"\r\n\r\ndata: "+others)
				return strings.NewReplacer(": comment\n", "", "data:", "", "\n\n", "\n").Replace(got)
			},
		} {
			var a answers
			ctx, into := whole(t.Context())
			a.sent(ctx, "1")
			got := read(&a)
			var m struct{ ID, Result json.RawMessage }
			lines := strings.Split(strings.TrimSpace(got), "\n")
			if len(lines) != 3 || !sameJSON(lines[0], others) || !sameJSON(lines[2], others) || !sameJSON(lines[1], left) || json.Unmarshal([]byte(lines[1]), &m) != nil {
				t.Errorf("%s: got %q, want what is left of the result between the other messages", name, lines)
			}
			if string(*into) != result {
				t.Errorf("%s: got %s, want %s", name, *into, result)
			}
			if len(a.wants) > 0 {
				t.Errorf("%s: the request is still waited for", name)
			}
		}
	}
}

func sameJSON(a, b string) bool {
	one, failed := decodeExact([]byte(a))
	two, failed2 := decodeExact([]byte(b))
	return failed == nil && failed2 == nil && string(unescaped(one)) == string(unescaped(two))
}

// TestEndOfRequest ends a request whose result did not come: nothing waits for it.
func TestEndOfRequest(t *testing.T) {
	t.Parallel()
	var a answers
	ctx, cancel := context.WithCancel(t.Context())
	once, _ := whole(ctx)
	a.sent(once, "1")
	cancel()
	for a.take("1") != nil { // the end is noted soon
		a.sent(once, "1")
	}
}

// TestMessagesAsTheyAreSent reads lines of servers that differ from the protocol: what the library gets of each, and what is noise.
func TestMessagesAsTheyAreSent(t *testing.T) {
	t.Parallel()
	const ok, log = `{"jsonrpc":"2.0","id":1,"result":{}}`, `{"level":30,"req":{"jsonrpc":"2.0","id":1}}`
	begun := func(has, info string) string {
		return `{"id":1,"jsonrpc":"2.0","result":{"capabilities":` + has + `,"protocolVersion":"2024-11-05","serverInfo":` + info + `}}`
	}
	refused := func(code int, text string) string {
		return fmt.Sprintf(`{"error":{"code":%d,"message":%q},"id":1,"jsonrpc":"2.0"}`, code, text)
	}
	for sent, want := range map[string]struct {
		read  string // by the library, without the last end of line
		noise string
	}{
		ok: {ok, ""}, "\uFEFF" + ok: {ok, ""}, "ready> " + ok: {ok, "ready>"}, ok + " // done": {ok, "// done"}, ok + ok: {ok + "\n" + ok, ""},
		`{"at": 5` + ok: {ok, `{"at": 5`}, `[info] {"a":1} ` + ok: {ok, `[info] {"a":1}`}, log: {"", log}, log + ok: {ok, log}, "[" + ok + "]": {ok, ""},
		`{"result":{},"id":1,"jsonrpc":"2.0"}`:                                          {`{"result":{},"id":1,"jsonrpc":"2.0"}`, ""},
		`{"level":"info","jsonrpc":"2.0"}`:                                              {"", `{"level":"info","jsonrpc":"2.0"}`},
		`{"id":null,"jsonrpc":"2.0","error":{"code":-32601,"message":"no"}}`:            {"", `{"id":null,"jsonrpc":"2.0","error":{"code":-32601,"message":"no"}}`},
		`{"jsonrpc":"2.0","result":{}}`:                                                 {"", `{"jsonrpc":"2.0","result":{}}`},
		`{"jsonrpc":"2.0","id":"1","result":{}}`:                                        {`{"id":1,"jsonrpc":"2.0","result":{}}`, ""},
		`{"jsonrpc":"2.0","id":1.0,"result":{}}`:                                        {`{"id":1,"jsonrpc":"2.0","result":{}}`, ""}, // Godot's
		`{"jsonrpc":"2.0","id":"q","method":"ping"}`:                                    {`{"jsonrpc":"2.0","id":"q","method":"ping"}`, ""},
		`{"jsonrpc":"2.0","id":"1","method":"ping"}`:                                    {`{"jsonrpc":"2.0","id":"1","method":"ping"}`, ""},
		`{"jsonrpc":"2.0","id":1,"error":"down"}`:                                       {refused(-32603, "down"), ""},
		`{"jsonrpc":"2.0","id":1,"error":{"code":"E","message":"down"}}`:                {refused(-32603, "down"), ""},
		`{"jsonrpc":"2.0","id":1,"error":{"code":-32000.0,"message":"down"}}`:           {refused(-32000, "down"), ""},
		`{"jsonrpc":"2.0","id":1,"error":{"code":-3,"message":{"message":"down"}}}`:     {refused(-3, "down"), ""},
		`{"jsonrpc":"2.0","id":1,"error":{"code":-3,"data":"down"}}`:                    {refused(-3, "down"), ""},
		begun(`{"logging":true,"prompts":null,"tools":[]}`, `{"name":"x","version":1}`): {begun(`{"logging":{},"prompts":null,"tools":{}}`, `{"name":"x"}`), ""},
		`{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2024-10-07","capabilities":[],"instructions":5,"serverInfo":"x"}}`: {
			`{"id":1,"jsonrpc":"2.0","result":{"protocolVersion":"2024-11-05"}}`, "",
		},
		`{"jsonrpc":"2.0","id":1,"result":{"serverInfo":{"name":"x","version":"1"}}}`: {`{"id":1,"jsonrpc":"2.0","result":{"protocolVersion":"2024-11-05","serverInfo":{"name":"x","version":"1"}}}`, ""},
		`{"jsonrpc":"2.0","id":1,"result":{"x":[NaN,-Infinity,Infinity,"NaN"]}}`:      {`{"jsonrpc":"2.0","id":1,"result":{"x":[null,null,null,"NaN"]}}`, ""},
		"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"x\":\"a\tb\x1b\\\"\"}}":          {`{"jsonrpc":"2.0","id":1,"result":{"x":"a\u0009b\u001b\""}}`, ""},
	} {
		read, noise, err := fromLines(t, new(answers), sent+"\n")
		if want.read != "" {
			want.read += "\n"
		}
		if !sameLines(read, want.read) || strings.TrimSuffix(noise, "\n") != want.noise || !errors.Is(err, io.EOF) {
			t.Errorf("line %s:\ngot  %q, noise %q, %v\nwant %q, noise %q", sent, read, noise, err, want.read, want.noise)
		}
		if strings.Count(want.read, "\n") > 1 || want.noise != "" && want.read != "" {
			continue // an event is one message
		}
		read = strings.TrimPrefix(strings.TrimSpace(fromEvents(t, new(answers), "data: "+sent+"\n\n")), "data:")
		if !sameLines(read, want.read) {
			t.Errorf("event %s:\ngot  %q\nwant %q", sent, read, want.read)
		}
	}
}

// TestRefusalOfNoRequest: a server that could not read a request ends the session, which would wait for the answer.
func TestRefusalOfNoRequest(t *testing.T) {
	t.Parallel()
	if _, _, err := fromLines(t, new(answers), `{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"x"}}`); err == nil || errors.Is(err, io.EOF) {
		t.Errorf("got %v, want an error", err)
	}
}

// sameLines compares the JSON of lines.
func sameLines(a, b string) bool {
	one, two := strings.Split(strings.TrimSpace(a), "\n"), strings.Split(strings.TrimSpace(b), "\n")
	for i := range one {
		if len(one) != len(two) || one[i] != two[i] && !sameJSON(one[i], two[i]) {
			return false
		}
	}
	return true
}

// TestEndlessLines reads a line and an event without end: each is given up after the limit of a message.
func TestEndlessLines(t *testing.T) {
	t.Parallel()
	p := newPipe(new(answers), nil)
	go p.listen(endlessLine{}) // ends with the limit
	_, err := p.Read(t.Context())
	runtest.WantError(t, "line", err, errLarge)
	n, err := io.Copy(io.Discard, &eventStream{from: bufio.NewReader(endlessLine{}), answers: new(answers)})
	if n > 0 || !errors.Is(err, errLarge) {
		t.Errorf("event: got %d bytes, %v, want %v", n, err, errLarge)
	}
}

// endlessLine is a line of x.
type endlessLine struct{}

func (endlessLine) Read(data []byte) (int, error) {
	for i := range data {
		data[i] = 'x'
	}
	return len(data), nil
}
