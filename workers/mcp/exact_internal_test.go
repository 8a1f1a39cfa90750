package mcp

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
)

// TestExactResults reads messages with results of calls: the metadata has the text of the content. All other messages are as they were, and
// lines that are no messages are noise.
func TestExactResults(t *testing.T) {
	t.Parallel()
	others := []string{
		`{"jsonrpc":"2.0","method":"notifications/message","params":{"structuredContent":9007199254740993}}`,
		`{"jsonrpc":"2.0","id":1,"result":{"resources":[],"_meta":7}}`, `{"jsonrpc":"2.0","id":2,"result":{"messages":[{"content":{"type":"text"}}]}}`,
	}
	noise := []string{`Starting "server"`, `{"level":"info"}`, `[info] "jsonrpc" is on`, "42", `{"a":"{\"jsonrpc\":1}"}`}
	for name, c := range map[string]struct {
		framing framing
		end     string // of a line
		breaks  bool   // the message has several lines
	}{
		"lines": {inLines, "\n", false}, "events": {inEvents, "\n", false}, "event_of_lines": {inEvents, "\n", true}, "crlf": {inEvents, "\r\n", true}, "whole": {inOne, "\n", true},
	} {
		for _, content := range []string{`"structuredContent":{"id":9007199254740993}`, `"structuredContent":{"x":1e400}`, `"content":[{"type":"none"}]`, `"content":"text"`} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				result := `{"jsonrpc":"2.0","id":1,` + "\n" + `"result":{` + content + `,"_meta":{"a":1}}}`
				if !c.breaks {
					result = strings.ReplaceAll(result, "\n", "")
				}
				text, around := result, ""
				switch c.framing {
				case inLines:
					around = strings.Join(others, "\n") + "\n"
					text = around + strings.Join(noise, "\n") + "\n\n" + "[log] " + result + "\n" + around
				case inOne:
				case inEvents:
					around = "data: " + strings.Join(others, c.end+c.end+"data: ") + c.end + c.end + ": comment" + c.end
					text = around + "data: " + strings.ReplaceAll(result, "\n", c.end+"data: ") + c.end + c.end + around
				}
				var skipped []string
				e := exactOf(io.NopCloser(iotest.OneByteReader(strings.NewReader(text))), c.framing)
				e.noise = func(line string) { skipped = append(skipped, line) }
				data, err := io.ReadAll(e)
				if err != nil {
					t.Fatal(err)
				}
				got, before := strings.CutPrefix(string(data), around)
				got, after := strings.CutSuffix(got, around)
				if !before || !after {
					t.Errorf("got %.2000q, want the other lines as they were: %.2000q", data, around)
				}
				if want := append(slices.Clone(noise), "[log]"); c.framing == inLines && !slices.Equal(skipped, want) {
					t.Errorf("noise: got %q, want %q", skipped, want)
				}
				var m struct {
					Result struct {
						Content           json.RawMessage
						StructuredContent json.RawMessage
						Meta              map[string]any `json:"_meta"`
					}
				}
				if err := json.Unmarshal([]byte(strings.TrimPrefix(got, "data: ")), &m); err != nil {
					t.Fatalf("%v: %q", err, got)
				}
				if r := m.Result; r.StructuredContent != nil || string(r.Content) != "[]" || r.Meta[exactKey] != "{"+content+"}" || r.Meta["a"] != 1.0 {
					t.Errorf("got %s, want %s in the metadata", got, content)
				}
			})
		}
	}
}

// TestMessagesAsTheyAreSent reads lines of servers that differ from the protocol: what the library gets of each, and what is noise.
func TestMessagesAsTheyAreSent(t *testing.T) {
	t.Parallel()
	const ok, log = `{"jsonrpc":"2.0","id":1,"result":{}}`, `{"level":30,"req":{"jsonrpc":"2.0","id":1}}`
	tool := func(more string) string {
		return `{"id":1,"jsonrpc":"2.0","result":{"tools":[{` + more + `"name":"t"}]}}`
	}
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
		`{"result":{},"id":1,"jsonrpc":"2.0"}`:                                      {`{"result":{},"id":1,"jsonrpc":"2.0"}`, ""},
		`{"level":"info","jsonrpc":"2.0"}`:                                          {"", `{"level":"info","jsonrpc":"2.0"}`},
		`{"id":null,"jsonrpc":"2.0","error":{"code":-32601,"message":"no"}}`:        {"", `{"id":null,"jsonrpc":"2.0","error":{"code":-32601,"message":"no"}}`},
		`{"jsonrpc":"2.0","result":{}}`:                                             {"", `{"jsonrpc":"2.0","result":{}}`},
		`{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"x"}}`:         {`{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"x"}}`, ""},
		`{"jsonrpc":"2.0","id":"1","result":{}}`:                                    {`{"id":1,"jsonrpc":"2.0","result":{}}`, ""},
		`{"jsonrpc":"2.0","id":"q","method":"ping"}`:                                {`{"jsonrpc":"2.0","id":"q","method":"ping"}`, ""},
		`{"jsonrpc":"2.0","id":"1","method":"ping"}`:                                {`{"jsonrpc":"2.0","id":"1","method":"ping"}`, ""},
		`{"jsonrpc":"2.0","id":1,"error":"down"}`:                                   {refused(-32603, "down"), ""},
		`{"jsonrpc":"2.0","id":1,"error":{"code":"E","message":"down"}}`:            {refused(-32603, "down"), ""},
		`{"jsonrpc":"2.0","id":1,"error":{"code":-32000.0,"message":"down"}}`:       {refused(-32000, "down"), ""},
		`{"jsonrpc":"2.0","id":1,"error":{"code":-3,"message":{"message":"down"}}}`: {refused(-3, "down"), ""},
		`{"jsonrpc":"2.0","id":1,"error":{"code":-3,"data":"down"}}`:                {refused(-3, "down"), ""},
		tool(`"annotations":{"readOnlyHint":"true"},"description":["a"],`):          {tool(""), ""}, tool(`"icons":{},"title":5,"_meta":[],`): {tool(""), ""},
		`{"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":5}]}}`:                      {string(unescaped(map[string]any{"id": 1, "jsonrpc": "2.0", "result": map[string]any{"tools": []any{broken("", errors.New("its name is 5"))}}})), ""},
		begun(`{"logging":true,"prompts":null,"tools":[]}`, `{"name":"x","version":1}`): {begun(`{"logging":{},"prompts":null,"tools":{}}`, `{"name":"x"}`), ""},
		`{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2024-10-07","capabilities":[],"instructions":5,"serverInfo":"x"}}`: {
			`{"id":1,"jsonrpc":"2.0","result":{"protocolVersion":"2024-11-05"}}`, "",
		},
		`{"jsonrpc":"2.0","id":1,"result":{"isError":"no","content":"a","_meta":[]}}`: {`{"id":1,"jsonrpc":"2.0","result":{"_meta":{"lash/result":"{\"content\":\"a\"}"},"content":[]}}`, ""},
		`{"jsonrpc":"2.0","id":1,"result":{"x":[NaN,-Infinity,Infinity,"NaN"]}}`:      {`{"jsonrpc":"2.0","id":1,"result":{"x":[null,null,null,"NaN"]}}`, ""},
		"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"x\":\"a\tb\x1b\\\"\"}}":          {`{"jsonrpc":"2.0","id":1,"result":{"x":"a\u0009b\u001b\""}}`, ""},
		`{"jsonrpc":"2.0","id":1,"result":{"tools":[],"nextCursor":2}}`:               {`{"id":1,"jsonrpc":"2.0","result":{"nextCursor":"2","tools":[]}}`, ""},
		`{"jsonrpc":"2.0","id":1,"result":{"toolResult":"a"}}`:                        {`{"id":1,"jsonrpc":"2.0","result":{"_meta":{"lash/result":"{\"content\":\"a\"}"},"content":[],"toolResult":"a"}}`, ""},
	} {
		for framing, end := range map[framing]string{inLines: "\n", inEvents: "\n\n"} {
			line, read := sent+end, want.read
			if read != "" {
				read += end
			}
			if framing == inEvents {
				if strings.Contains(want.read, "\n") || want.noise != "" && want.read != "" {
					continue // an event is one message
				}
				line, read = "data: "+line, strings.TrimPrefix("data: "+read, "data: \n")
				if want.read == "" {
					read = "\n"
				}
			}
			var noise []string
			e := exactOf(io.NopCloser(strings.NewReader(line)), framing)
			e.noise = func(line string) { noise = append(noise, line) }
			got, err := io.ReadAll(e)
			if framing == inEvents { // data that is as it was has its mark yet
				got = bytes.ReplaceAll(got, []byte("data: \uFEFF"), []byte("data: "))
			}
			if string(got) != read || err != nil || framing == inLines && strings.Join(noise, "") != want.noise {
				t.Errorf("%v %s:\ngot  %q, %v, noise %q\nwant %q, noise %q", framing, sent, got, err, noise, read, want.noise)
			}
		}
	}
}

// TestExactReaderIsBounded reads a line without end: it is passed on in parts, so that the reader above refuses it.
func TestExactReaderIsBounded(t *testing.T) {
	t.Parallel()
	e := exactOf(io.NopCloser(endlessLine{}), inLines)
	if n, err := io.CopyN(io.Discard, e, 4*maxMessage); n != 4*maxMessage || err != nil {
		t.Fatalf("got %d bytes, %v", n, err)
	}
	if most := 3 * maxMessage; cap(e.ready) > most {
		t.Errorf("got %d bytes kept, want at most %d", cap(e.ready), most)
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

// TestLongExactMessagesAreBounded reads results of characters that are longer in JSON, of sizes up to the limit of a message: with the text of
// its result, none is longer than four times its line, or than the limit. One that would be is as it was.
func TestLongExactMessagesAreBounded(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"a", "<", `\"`, "\u2028", "&quot;", "123456789012345 ", `\\`} {
		for _, size := range []int{1 << 10, 1 << 20, maxMessage / 2, maxMessage - 200} {
			line := `{"jsonrpc":"2.0","id":1,"result":{"structuredContent":{"n":9007199254740993,"text":"` + strings.Repeat(text, size/len(text)) + `"}}}` + "\n"
			out, err := io.ReadAll(exactOf(io.NopCloser(strings.NewReader(line)), inLines))
			if err != nil {
				t.Fatal(err)
			}
			if most := min(maxMessage, 4*len(line)); len(out) > most {
				t.Errorf("%d bytes of %q: got %d bytes, want at most %d", len(line), text, len(out), most)
			}
			if had := bytes.Contains(out, []byte(exactKey)); size <= 1<<20 && !had || !had && string(out) != line {
				t.Errorf("%d bytes of %q: the text of the result is there: %v, or the line is another one", len(line), text, had)
			}
		}
	}
}
