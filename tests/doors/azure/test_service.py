"""The service and its queues: lists, properties, statistics, CORS, metadata, policies, and both styles of address."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.doors.azure import queues
from penstock.wire.turns import Turns
from tests.doors.azure.harness import Harness, body_of
from tests.doors.azure.signing import ACCOUNT, account_sas

PROPERTIES = "?restype=service&comp=properties"
RULE = (
    "<CorsRule><AllowedOrigins>{}</AllowedOrigins><AllowedMethods>GET,PUT</AllowedMethods>"
    "<AllowedHeaders>x-ms-*,Content-Type</AllowedHeaders><ExposedHeaders>x-ms-meta-*</ExposedHeaders>"
    "<MaxAgeInSeconds>60</MaxAgeInSeconds></CorsRule>"
)


def set_cors(azure: Harness, *origins: str) -> None:
    rules = "".join(RULE.format(origin) for origin in origins)
    body = f"<StorageServiceProperties><Cors>{rules}</Cors></StorageServiceProperties>".encode()
    assert azure.ask("PUT", PROPERTIES, body).status == 202


# ---------------------------------------------------------------------- queues


def test_create_is_201_then_204_and_409_with_other_metadata(azure: Harness) -> None:
    target = f"/{ACCOUNT}/orders?{azure.sas}"
    assert azure.send("PUT", target, headers={"x-ms-meta-Colour": "red"}).status == 201
    assert azure.send("PUT", target, headers={"x-ms-meta-cOLOUR": "red"}).status == 204
    answer = azure.send("PUT", target, headers={"x-ms-meta-Colour": "blue"})
    assert (answer.status, answer.code) == (409, "QueueAlreadyExists")


def test_metadata_keeps_its_case_is_replaced_and_cleared(azure: Harness) -> None:
    azure.create("orders")
    target = f"/{ACCOUNT}/orders?comp=metadata&{azure.sas}"
    assert azure.send("PUT", target, headers={"x-ms-meta-MixedCase": "Value", "x-ms-meta-b": "2"}).status == 204
    import http.client

    connection = http.client.HTTPConnection("127.0.0.1", azure.port, timeout=10)
    connection.request("HEAD", target)
    names = [name for name, _ in connection.getresponse().getheaders() if name.startswith("x-ms-meta-")]
    connection.close()
    assert names == ["x-ms-meta-MixedCase", "x-ms-meta-b"]
    assert azure.send("PUT", target).status == 204
    assert not [name for name in azure.send("GET", target).headers if name.startswith("x-ms-meta-")]


def test_a_deleted_queue_takes_its_messages_metadata_and_policies_with_it(orders: Harness) -> None:
    orders.put()
    orders.ask("PUT", "orders?comp=metadata", x_ms_meta_a="1")
    assert orders.ask("DELETE", "orders").status == 204
    assert orders.ask("GET", "orders?comp=metadata").code == "QueueNotFound"
    orders.create("orders")
    assert orders.count() == 0
    assert "x-ms-meta-a" not in orders.ask("GET", "orders?comp=metadata").headers


def test_a_topic_of_another_door_becomes_a_queue_when_it_is_created(azure: Harness) -> None:
    azure.run(lambda: azure.queue.create_topic(f"projects/{ACCOUNT}/topics/shared"))
    assert azure.ask("GET", "shared/messages").code == "QueueNotFound"
    assert azure.ask("PUT", "shared", x_ms_meta_a="1").status == 201
    assert azure.ask("GET", "shared?comp=metadata").headers["x-ms-meta-a"] == "1"


def test_a_list_is_sorted_paged_and_filtered(azure: Harness) -> None:
    for name in ("ccc", "bbb", "aaa", "ddd", "other"):
        azure.create(name)
    marker, names = "", []
    while True:
        page = azure.ask("GET", f"?comp=list&maxresults=2&marker={marker}")
        names.append(page.texts("Name"))
        marker = page.text("NextMarker")
        if not marker:
            break
    assert names == [["aaa", "bbb"], ["ccc", "ddd"], ["other"]]
    assert azure.ask("GET", "?comp=list&prefix=o&include=").texts("Name") == ["other"]
    assert azure.ask("GET", "?comp=list&prefix=zzz").body.endswith(
        b"<Queues></Queues><NextMarker /></EnumerationResults>"
    )


def test_the_cost_of_a_page_depends_only_on_the_page(azure: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    """Design law: no client may hold up another. The page looks at the topics up to its last queue, with turns."""
    looked_at: list[str] = []
    turns = 0
    find, give = azure.queue.find_queue, Turns.give

    async def find_queue(topic: str, subscription: str) -> Any:
        looked_at.append(topic.rpartition("/")[2])
        return await find(topic, subscription)

    async def count_turns(self: Turns) -> None:
        nonlocal turns
        turns += 1
        await give(self)

    for name in ("one", "two", "a-topic", *(f"queue-{number:02}" for number in range(30)), "zoo"):
        azure.run(lambda name=name: azure.queue.create_topic(f"projects/{ACCOUNT}/topics/{name}"))
        if name != "a-topic":
            azure.create(name)
    monkeypatch.setattr(queues, "CHUNK_NAMES", 4)
    monkeypatch.setattr(azure.queue, "find_queue", find_queue)
    monkeypatch.setattr(Turns, "give", count_turns)
    page = azure.ask("GET", "?comp=list&maxresults=3")
    assert page.texts("Name") == ["one", "queue-00", "queue-01"]
    assert looked_at == ["a-topic", "one", "queue-00", "queue-01", "queue-02"]
    assert turns >= 4
    looked_at.clear()
    page = azure.ask("GET", f"?comp=list&maxresults=2&prefix=queue&marker=%2F{ACCOUNT}%2Fqueue-28")
    assert (page.texts("Name"), page.text("NextMarker")) == (["queue-28", "queue-29"], "")
    assert looked_at == ["queue-28", "queue-29"]
    turns = 0
    page = azure.ask("GET", "?comp=list&include=metadata&prefix=queue")
    assert len(page.texts("Name")) == 30
    assert turns == 60


def test_a_list_repeats_nothing_that_xml_cannot_hold(azure: Harness) -> None:
    headers = {"Host": '"><Injected/>'}
    answer = azure.send("GET", f"/{ACCOUNT}?comp=list&prefix=%00%ED%A0%80%22&{azure.sas}", headers=headers)
    assert answer.status == 200
    assert answer.xml.find("Injected") is None
    assert answer.text("Prefix").endswith('"')


def test_a_list_may_include_metadata(azure: Harness) -> None:
    azure.ask("PUT", "orders", x_ms_meta_a="<1>")
    answer = azure.ask("GET", "?comp=list&include=metadata")
    assert answer.xml.findtext("Queues/Queue/Metadata/a") == "<1>"
    assert azure.ask("GET", "?comp=list").xml.find("Queues/Queue/Metadata") is None


def test_a_list_names_its_endpoint_as_it_was_called(azure: Harness) -> None:
    home, inside = f"127.0.0.1:{azure.port}", f"{ACCOUNT}.queue.localhost:{azure.port}"
    answer = azure.ask("GET", "?comp=list&include=metadata,metadata")
    assert answer.xml.attrib["ServiceEndpoint"] == f"http://{home}/{ACCOUNT}/"
    answer = azure.send("GET", f"/?comp=list&{azure.sas}", headers={"Host": inside})
    assert answer.xml.attrib["ServiceEndpoint"] == f"http://{inside}/"
    answer = azure.dialect("GET", "?comp=list")
    assert answer.xml.attrib["ServiceEndpoint"] == f"http://{home}/queue/myaccount/"


def test_a_list_shows_only_the_queues_of_its_account(azure: Harness) -> None:
    azure.create("mine")
    azure.dialect("PUT", "theirs")
    assert azure.ask("GET", "?comp=list").texts("Name") == ["mine"]


# ---------------------------------------------------------------------- properties, statistics, CORS


def test_properties_that_are_left_out_keep_their_value(azure: Harness) -> None:
    retention = "<RetentionPolicy><Enabled>true</Enabled><Days>{}</Days></RetentionPolicy>"
    logging = f"<Logging><Version>1.0</Version><Delete>true</Delete>{retention.format(7)}</Logging>"
    metrics = "<HourMetrics><Version>1.0</Version><Enabled>true</Enabled><IncludeAPIs>true</IncludeAPIs></HourMetrics>"
    for part in (logging, metrics):
        body = f"<StorageServiceProperties>{part}</StorageServiceProperties>".encode()
        assert azure.ask("PUT", PROPERTIES, body).status == 202
    root = azure.ask("GET", PROPERTIES).xml
    assert root.findtext("Logging/Delete") == "true"
    assert root.findtext("Logging/RetentionPolicy/Days") == "7"
    assert root.findtext("HourMetrics/IncludeAPIs") == "true"
    assert root.findtext("MinuteMetrics/Enabled") == "false"
    assert [child.tag for child in root] == ["Logging", "HourMetrics", "MinuteMetrics", "Cors"]


WHOLE = "InvalidXmlDocument"
VALUE = "InvalidXmlNodeValue"
FOO = RULE.format("*").replace("GET,PUT", "GET,FOO")


@pytest.mark.parametrize(
    ("inner", "code"),
    [
        (f"<Cors>{RULE.format('*') * 6}</Cors>", WHOLE),
        ("<Cors><CorsRule></CorsRule></Cors>", WHOLE),
        ("<Cors><Other/></Cors>", WHOLE),
        ("<Cors/><Cors/>", WHOLE),
        ("<Logging><RetentionPolicy><Enabled>true</Enabled></RetentionPolicy></Logging>", WHOLE),
        ("<HourMetrics><Enabled>true</Enabled></HourMetrics>", WHOLE),
        ("<Logging><RetentionPolicy><Enabled>true</Enabled><Days>366</Days></RetentionPolicy></Logging>", VALUE),
        ("<Logging><Read>perhaps</Read></Logging>", VALUE),
        ("<MinuteMetrics><Version>one</Version></MinuteMetrics>", VALUE),
        (f"<Cors>{FOO}</Cors>", VALUE),
        (f"<Cors>{RULE.format(','.join(f'https://{n}.example' for n in range(65)))}</Cors>", VALUE),
        (f"<Cors>{RULE.format('https://' + 'x' * 256)}</Cors>", VALUE),
        (f"<Cors>{RULE.format('*').replace('Content-Type', ','.join(map(str, range(65))))}</Cors>", VALUE),
        (f"<Cors>{RULE.format('*').replace('x-ms-meta-*', 'a*,b*,c*')}</Cors>", VALUE),
    ],
)
def test_wrong_service_properties_are_refused(azure: Harness, inner: str, code: str) -> None:
    body = f"<StorageServiceProperties>{inner}</StorageServiceProperties>".encode()
    answer = azure.ask("PUT", PROPERTIES, body)
    assert (answer.status, answer.code) == (400, code)


def test_an_invalid_property_is_named(azure: Harness) -> None:
    body = f"<StorageServiceProperties><Cors>{FOO}</Cors></StorageServiceProperties>".encode()
    answer = azure.ask("PUT", PROPERTIES, body)
    assert (answer.text("XmlNodeName"), answer.text("XmlNodeValue")) == ("AllowedMethods", "GET,FOO")
    assert answer.text("Message").startswith("The value for one of the XML nodes is not in the correct format.\n")
    assert azure.ask("GET", PROPERTIES).xml.find("Cors/CorsRule") is None


def test_statistics_are_at_the_secondary(azure: Harness) -> None:
    answer = azure.send("GET", f"/{ACCOUNT}-secondary?restype=service&comp=stats&{azure.sas}")
    assert (answer.status, answer.xml.findtext("GeoReplication/Status")) == (200, "live")


def test_the_secondary_only_reads(orders: Harness) -> None:
    orders.put()
    home = f"/{ACCOUNT}-secondary/orders"
    assert orders.send("GET", f"{home}/messages?peekonly=true&{orders.sas}").status == 200
    assert orders.send("GET", f"{home}?comp=metadata&{orders.sas}").status == 200
    answer = orders.send("POST", f"{home}/messages?{orders.sas}", body_of("x"))
    assert (answer.status, answer.code) == (403, "InsufficientAccountPermissions")


def preflight(azure: Harness, **headers: str) -> dict[str, str]:
    answer = azure.send("OPTIONS", f"/{ACCOUNT}/orders", headers={k.replace("_", "-"): v for k, v in headers.items()})
    return answer.headers | {"status": str(answer.status), "code": answer.code if answer.status >= 400 else ""}


def test_a_preflight_needs_a_rule(azure: Harness) -> None:
    asked = {"Origin": "https://page.example", "Access_Control_Request_Method": "PUT"}
    assert preflight(azure, **asked)["code"] == "CorsPreflightFailure"
    set_cors(azure, "https://other.example", "https://page.example")
    answer = preflight(azure, **asked, Access_Control_Request_Headers="x-ms-version, content-type")
    assert answer["status"] == "200"
    assert answer["access-control-allow-origin"] == "https://page.example"
    assert answer["access-control-allow-methods"] == "PUT"
    assert answer["access-control-allow-headers"] == "x-ms-version,content-type"
    assert answer["access-control-max-age"] == "60"
    assert preflight(azure, **asked, Access_Control_Request_Headers="x-other")["code"] == "CorsPreflightFailure"
    assert preflight(azure, **asked | {"Access_Control_Request_Method": "DELETE"})["code"] == "CorsPreflightFailure"


@pytest.mark.parametrize("missing", ["Origin", "Access_Control_Request_Method"])
def test_a_preflight_needs_its_headers(azure: Harness, missing: str) -> None:
    asked = {"Origin": "https://page.example", "Access_Control_Request_Method": "PUT"}
    del asked[missing]
    assert preflight(azure, **asked)["code"] == "InvalidHeaderValue"
    answer = azure.send("OPTIONS", f"/{ACCOUNT}/orders", headers={k.replace("_", "-"): v for k, v in asked.items()})
    assert answer.text("Message").startswith("A required CORS header is not present.\n")


@pytest.mark.parametrize(
    ("origin", "allowed"),
    [
        ("https://a.page.example", True),
        ("https://a.b.page.example", True),
        ("https://page.example", False),
        ("http://a.page.example", False),
        ("https://apage.example", False),
        ("https://a.page.example.evil", False),
        ("https://evil/.page.example", False),
    ],
)
def test_an_origin_may_be_any_subdomain(azure: Harness, origin: str, allowed: bool) -> None:
    set_cors(azure, "https://*.page.example")
    answer = preflight(azure, Origin=origin, Access_Control_Request_Method="PUT")
    assert answer["status"] == ("200" if allowed else "403")
    assert answer.get("access-control-allow-origin") == (origin if allowed else None)


def test_an_answer_to_a_page_says_whether_the_page_may_read_it(azure: Harness) -> None:
    set_cors(azure, "https://page.example")
    answer = azure.ask("GET", "?comp=list", Origin="https://page.example")
    assert answer.headers["access-control-allow-origin"] == "https://page.example"
    assert answer.headers["access-control-expose-headers"] == "x-ms-meta-*"
    assert "access-control-allow-origin" not in azure.ask("GET", "?comp=list", Origin="https://evil.example").headers
    assert "access-control-allow-origin" not in azure.ask("GET", "?comp=list").headers


# ---------------------------------------------------------------------- addresses and headers


def test_the_account_may_stand_in_the_host(azure: Harness) -> None:
    headers = {"Host": f"{ACCOUNT}.queue.localhost:{azure.port}"}
    assert azure.send("PUT", f"/orders?{azure.sas}", headers=headers).status == 201
    assert azure.ask("GET", "?comp=list").texts("Name") == ["orders"]
    headers = {"Host": f"{ACCOUNT}-secondary.queue.localhost"}
    assert azure.send("GET", f"/?restype=service&comp=stats&{azure.sas}", headers=headers).status == 200


@pytest.mark.parametrize("host", ["penstock", "storage.internal:10001", "my-service.namespace.svc", "127.0.0.1"])
def test_any_other_host_name_means_path_style(azure: Harness, host: str) -> None:
    assert azure.send("GET", f"/{ACCOUNT}?comp=list&{azure.sas}", headers={"Host": host}).status == 200


def test_every_answer_names_itself_and_echoes_its_client(azure: Harness) -> None:
    first = azure.ask("GET", "?comp=list", x_ms_client_request_id="abc")
    second = azure.ask("GET", "?comp=list")
    assert first.headers["x-ms-client-request-id"] == "abc"
    assert first.headers["x-ms-request-id"] != second.headers["x-ms-request-id"]
    assert first.headers["cache-control"] == "no-cache"
    assert first.headers["keep-alive"] == "timeout=60"
    assert "date" in first.headers


def test_without_a_version_the_signature_names_it(azure: Harness) -> None:
    sas = account_sas(sv="2023-01-03")
    assert azure.send("GET", f"/{ACCOUNT}?comp=list&{sas}").headers["x-ms-version"] == "2023-01-03"
