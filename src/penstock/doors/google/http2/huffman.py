"""The Huffman code of HPACK (RFC 7541, appendix B).

The code is canonical, so a table of lengths defines it. Decoding walks a table four bits at a time.
"""

from __future__ import annotations

END_OF_STRING = 256
_PADDING_BITS_MAX = 7

# Length in bits -> the symbols of that length, each byte or range of bytes ("first-last").
_LENGTHS: dict[int, str] = {
    5: "48-50 97 99 101 105 111 115-116",
    6: "32 37 45-47 51-57 61 65 95 98 100 102-104 108-110 112 114 117",
    7: "58 66-87 89 106-107 113 118-122",
    8: "38 42 44 59 88 90",
    10: "33-34 40-41 63",
    11: "39 43 124",
    12: "35 62",
    13: "0 36 64 91 93 126",
    14: "94 125",
    15: "60 96 123",
    19: "92 195 208",
    20: "128 130-131 162 184 194 224 226",
    21: "153 161 167 172 176-177 179 209 216-217 227 229-230",
    22: "129 132-134 136 146 154 156 160 163-164 169-170 173 178 181 185-187 189-190 196 198 228 232-233",
    23: "1 135 137-141 143 147 149-152 155 157-158 165-166 168 174-175 180 182-183 188 191 197 231 239",
    24: "9 142 144-145 148 159 171 206 215 225 236-237",
    25: "199 207 234-235",
    26: "192-193 200-202 205 210 213 218-219 238 240 242-243 255",
    27: "203-204 211-212 214 221-223 241 244-248 250-254",
    28: "2-8 11-12 14-21 23-31 127 220 249",
    30: "10 13 22 256",
}


def _codes() -> dict[tuple[int, int], int]:
    """Return the symbol of every (length, code). Codes rise with the length, then with the symbol."""
    codes, code, before = {}, 0, 0
    for length, text in sorted(_LENGTHS.items()):
        code <<= length - before
        before = length
        for part in text.split():
            first, _, last = part.partition("-")
            for symbol in range(int(first), int(last or first) + 1):
                codes[length, code] = symbol
                code += 1
    return codes


class _Node:
    __slots__ = ("branches", "depth", "number", "ones", "symbol")

    def __init__(self, depth: int, ones: bool) -> None:
        self.depth = depth
        self.ones = ones  # True if the path here has only ones, as padding has
        self.symbol = -1
        self.number = 0
        self.branches: list[_Node | None] = [None, None]


def _tree() -> list[_Node]:
    """Build the code tree. Return its inner nodes, the root first."""
    root = _Node(0, True)
    nodes = [root]
    for (length, code), symbol in _codes().items():
        node = root
        for shift in range(length - 1, -1, -1):
            bit = code >> shift & 1
            branch = node.branches[bit]
            if branch is None:
                branch = node.branches[bit] = _Node(node.depth + 1, node.ones and bit == 1)
                if shift:
                    branch.number = len(nodes)
                    nodes.append(branch)
            node = branch
        node.symbol = symbol
    return nodes


def _walk(root: _Node, node: _Node, nibble: int) -> tuple[int, bytes]:
    completed = b""
    for shift in (3, 2, 1, 0):
        branch = node.branches[nibble >> shift & 1]
        if branch is None or branch.symbol == END_OF_STRING:
            return -1, b""
        node = branch
        if node.symbol >= 0:
            completed += bytes([node.symbol])
            node = root
    return node.number, completed


_NODES = _tree()
# By node * 16 + nibble: the next node (-1: no code), and the bytes that the nibble completes.
_STEPS = [_walk(_NODES[0], node, nibble) for node in _NODES for nibble in range(16)]
_MAY_END = [node.ones and node.depth <= _PADDING_BITS_MAX for node in _NODES]


def decode(data: bytes) -> bytes:
    """Decode a Huffman-coded string. Raise ValueError if it is invalid."""
    state, parts, steps = 0, [], _STEPS
    for byte in data:
        state, completed = steps[state * 16 + (byte >> 4)]
        if state < 0:
            break
        parts.append(completed)
        state, completed = steps[state * 16 + (byte & 15)]
        if state < 0:
            break
        parts.append(completed)
    if state < 0 or not _MAY_END[state]:
        raise ValueError("not Huffman code")
    return b"".join(parts)
