"""SQLAlchemy: definitions, core, ORM."""
import enum

import sqlalchemy as sa
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

engine = sa.create_engine("postgresql+psycopg://")


class Base(DeclarativeBase):
    pass


class Author(Base):
    __tablename__ = "sa_author"
    __table_args__ = (sa.UniqueConstraint("name", name="sa_author_name"),)
    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(sa.String(30))
    born: Mapped[sa.Date | None] = mapped_column(sa.Date)


class Book(Base):
    __tablename__ = "sa_book"
    id: Mapped[int] = mapped_column(primary_key=True)
    author: Mapped[int] = mapped_column(index=True)
    title: Mapped[str] = mapped_column(sa.Text, server_default="untitled")
    price: Mapped[float | None] = mapped_column(sa.Numeric(8, 2))


class Colour(enum.Enum):
    red = 1
    green = 2
    blue = 3


class Ball(Base):
    __tablename__ = "sa_ball"
    id: Mapped[int] = mapped_column(primary_key=True)
    colour: Mapped[Colour] = mapped_column(sa.Enum(Colour, name="sa_colour"), index=True)
    size: Mapped[str] = mapped_column(sa.Enum("s", "m", name="sa_size"), server_default="m")


Base.metadata.drop_all(engine)
Base.metadata.create_all(engine)
Base.metadata.create_all(engine)  # finds them
with Session(engine) as session:
    session.add_all([Ball(colour=c) for c in (Colour.blue, Colour.red, Colour.green)])
    session.commit()
    order = session.scalars(sa.select(Ball.colour).order_by(Ball.colour)).all()
    assert order == [Colour.red, Colour.green, Colour.blue], order
    blue = session.scalars(sa.select(Ball).where(Ball.colour == Colour.blue)).one()
    assert blue.size == "m"
    blue.size = "s"
    session.commit()
    some = sa.select(sa.func.count()).where(Ball.colour.in_([Colour.red, Colour.blue]))
    assert session.scalar(some) == 2
reflected = {c["name"]: c["type"] for c in sa.inspect(engine).get_columns("sa_ball")}
assert reflected["colour"].enums == ["red", "green", "blue"], reflected
assert reflected["colour"].name == "sa_colour", reflected
assert {e["name"] for e in sa.inspect(engine).get_enums()} >= {"sa_colour", "sa_size"}
again = sa.Table("sa_ball", sa.MetaData(), autoload_with=engine)
with engine.begin() as connection:
    connection.execute(again.insert().values(colour="green", size="s"))
with Session(engine) as session:
    one = Author(name="one")
    session.add_all([one, Author(name="two")])
    session.flush()
    session.add_all([Book(author=one.id, price=i) for i in range(5)])
    session.commit()
    assert one.id is not None and session.scalar(sa.select(sa.func.count(Book.id))) == 5
    one.name = "three"
    session.commit()
    found = session.scalars(sa.select(Author).where(Author.name == "three")).one()
    assert found.id == one.id
    joined = session.execute(
        sa.select(Author.name, sa.func.sum(Book.price)).join(Book, Book.author == Author.id)
        .group_by(Author.name)
    ).all()
    assert [(n, int(s)) for n, s in joined] == [("three", 10)], joined
    session.delete(session.get(Book, 1))
    session.commit()
    try:
        session.add(Author(name="two"))
        session.commit()
        raise AssertionError("a duplicate name was taken")
    except sa.exc.IntegrityError:
        session.rollback()
seen = sa.inspect(engine)
assert {"sa_author", "sa_book"} <= set(seen.get_table_names()), seen.get_table_names()
assert seen.has_table("sa_book") and not seen.has_table("sa_books")
Base.metadata.drop_all(engine)
assert not sa.inspect(engine).has_table("sa_book")
print("sqlalchemy", sa.__version__)
